"""Two artifacts, the current one and a shadow, judged on the same records: pairs are compared (METHODS 9.7).

`weights` [n] are those of 9.2: 0 where a record has no label, whose outcome is then never read and may be None. A
reviewer who saw the current answer is biased towards it: only blind verdicts compare fairly.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr

from uncertainty.checks import Array, InvalidInput, Mask, finite, one_of, outcomes, same_length

ACTIONS = ("answer", "review")


@dataclass(frozen=True, kw_only=True)
class McNemar:
    """Records that only one of two has right, and how surprising so uneven a split would be of two that are equal."""

    only_current: int
    only_shadow: int
    p_value: float


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Records with one pair of actions. Risks are weighted means over its labelled records, NaN without any."""

    n: int
    share: float
    """Of all records, labelled or not."""

    n_labelled: int
    current_risk: float
    shadow_risk: float


@dataclass(frozen=True, kw_only=True)
class Answering:
    """The share of all records that is answered, and the weighted risk of the answered and labelled ones (or NaN)."""

    coverage: float
    risk: float


@dataclass(frozen=True, kw_only=True)
class DecisionFlips:
    """What two artifacts do with the same records. A cell is named for the actions of the current and the shadow."""

    cells: Mapping[str, Cell]
    current: Answering
    shadow: Answering


def paired_difference(loss_current: Any, loss_shadow: Any, weights: Any) -> float:
    """Weighted mean of the shadow's loss less the current one's, [n] each; below 0 favours the shadow. NaN without a
    label."""
    w = _weights(weights)
    current, shadow = (_column(name, x) for name, x in (("loss_current", loss_current), ("loss_shadow", loss_shadow)))
    same_length(loss_current=current, loss_shadow=shadow, weights=w)
    known = w > 0
    if not known.any():
        return np.nan
    losses = [finite(name, _at(x, known)) for name, x in (("loss_current", current), ("loss_shadow", shadow))]
    return _mean(losses[1] - losses[0], w[known])


def mcnemar(current_correct: Any, shadow_correct: Any) -> McNemar:
    """Exact test of whether two artifacts, right (1) or wrong (0) on the same records [n], are equally often right.

    p = min(1, 2 P(Bin(b + c, 1/2) <= min(b, c))), 1 where they never differ (McNemar 1947). For records of one common
    label probability only.
    """
    current, shadow = outcomes("current_correct", current_correct), outcomes("shadow_correct", shadow_correct)
    same_length(current_correct=current, shadow_correct=shadow)
    b, c = int((current > shadow).sum()), int((shadow > current).sum())
    p = min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5))) if b + c else 1.0
    return McNemar(only_current=b, only_shadow=c, p_value=p)


def decision_flips(current: Any, shadow: Any, current_correct: Any, shadow_correct: Any, weights: Any) -> DecisionFlips:
    """Return how often the actions [n], each `answer` or `review`, agree and flip, and the risk of either artifact.

    Correctness [n] is 1 or 0. What the shadow would answer and the current one holds is fully labelled where held
    records are reviewed, which makes `review_answer` the most useful cell.
    """
    w = _weights(weights)
    first, second = _answered("current", current), _answered("shadow", shadow)
    right = {
        "current_correct": _column("current_correct", current_correct),
        "shadow_correct": _column("shadow_correct", shadow_correct),
    }
    same_length(current=first, shadow=second, **right, weights=w)
    known = w > 0
    losses = []
    for name, column in right.items():
        loss = np.zeros(len(w))
        if known.any():
            loss[known] = 1 - outcomes(name, _at(column, known))
        losses.append(loss)
    return flips_of(first, second, losses[0], losses[1], w)


def flips_of(current: Mask, shadow: Mask, current_loss: Array, shadow_loss: Array, weights: Array) -> DecisionFlips:
    """The same, unchecked, of what is answered [n] and of losses [n] that may also lie between 0 and 1."""
    cells = {}
    for mine, rows in (("answer", current), ("review", ~current)):
        for theirs, columns in (("answer", shadow), ("review", ~shadow)):
            inside = rows & columns
            cells[f"{mine}_{theirs}"] = Cell(
                n=int(inside.sum()),
                share=float(inside.mean()),
                n_labelled=int((weights[inside] > 0).sum()),
                current_risk=_mean(current_loss[inside], weights[inside]),
                shadow_risk=_mean(shadow_loss[inside], weights[inside]),
            )
    return DecisionFlips(
        cells=cells,
        current=Answering(coverage=float(current.mean()), risk=_mean(current_loss[current], weights[current])),
        shadow=Answering(coverage=float(shadow.mean()), risk=_mean(shadow_loss[shadow], weights[shadow])),
    )


def _mean(values: Array, weights: Array) -> float:
    if not (weights > 0).any():
        return np.nan
    share = weights / weights.max()  # so that neither tiny nor huge weights leave the range of floats
    return float(values @ share / share.sum())


def _weights(values: Any) -> Array:
    w = finite("weights", values)
    if w.min() < 0:
        raise InvalidInput("weights holds a number below 0")
    return w


def _column(name: str, values: Any) -> list[Any]:
    """One value for each record, not looked at yet."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}, not a list")
    try:
        return list(values)
    except TypeError:  # an array without an axis
        raise InvalidInput(f"{name} is {values!r}, not a list") from None


def _at(column: list[Any], rows: Mask) -> list[Any]:
    return [value for value, inside in zip(column, rows.tolist(), strict=True) if inside]


def _answered(name: str, actions: Any) -> Mask:
    column = _column(name, actions)
    if not column:
        raise InvalidInput(f"{name} is empty")
    for action in column:
        one_of(name, action, ACTIONS)
    return np.array([action == "answer" for action in column], dtype=bool)
