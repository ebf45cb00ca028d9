"""Two artifacts, the current one and a shadow, judged on the same records: pairs are compared (METHODS 9.7).

`weights` [n] are those of 9.2: 0 where a record has no label, whose outcome is then never read and may be None. A
reviewer who saw the current answer is biased towards it: only blind verdicts compare fairly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr

from demur.audit.metrics.weighted_rows import at, column_of, mean_of, row_weights
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, one_of, outcomes, same_length

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
class SelectiveFigures:
    """The share of all records that is answered, and the weighted risk of the answered and labelled ones (or NaN)."""

    coverage: float
    risk: float


@dataclass(frozen=True, kw_only=True)
class DecisionFlips:
    """What two artifacts do with the same records. A cell is named for the actions of the current and the shadow."""

    cells: Mapping[str, Cell]
    current: SelectiveFigures
    shadow: SelectiveFigures


def paired_difference(loss_current: Any, loss_shadow: Any, weights: Any) -> float:
    """Weighted mean of the shadow's loss less the current one's, [n] each; below 0 favours the shadow. NaN without a
    label."""
    w = row_weights(weights)
    current, shadow = (column_of(name, x) for name, x in (("loss_current", loss_current), ("loss_shadow", loss_shadow)))
    same_length(loss_current=current, loss_shadow=shadow, weights=w)
    known = w > 0
    if not known.any():
        return np.nan
    losses = [finite(name, at(x, known)) for name, x in (("loss_current", current), ("loss_shadow", shadow))]
    return mean_of(losses[1] - losses[0], w[known])


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
    w = row_weights(weights)
    first, second = _answered("current", current), _answered("shadow", shadow)
    right = {
        "current_correct": column_of("current_correct", current_correct),
        "shadow_correct": column_of("shadow_correct", shadow_correct),
    }
    same_length(current=first, shadow=second, **right, weights=w)
    known = w > 0
    losses = []
    for name, column in right.items():
        loss = np.zeros(len(w))
        if known.any():
            loss[known] = 1 - outcomes(name, at(column, known))
        losses.append(loss)
    return flips_of(first, second, losses[0], losses[1], w)


def flips_of(current: Mask, shadow: Mask, current_loss: Array, shadow_loss: Array, weights: Array) -> DecisionFlips:
    """Count flips, unchecked, from what is answered [n] and from losses [n] that may also lie between 0 and 1."""
    cells = {}
    for mine, rows in (("answer", current), ("review", ~current)):
        for theirs, columns in (("answer", shadow), ("review", ~shadow)):
            inside = rows & columns
            cells[f"{mine}_{theirs}"] = Cell(
                n=int(inside.sum()),
                share=float(inside.mean()),
                n_labelled=int((weights[inside] > 0).sum()),
                current_risk=mean_of(current_loss[inside], weights[inside]),
                shadow_risk=mean_of(shadow_loss[inside], weights[inside]),
            )
    return DecisionFlips(
        cells=cells,
        current=SelectiveFigures(coverage=float(current.mean()), risk=mean_of(current_loss[current], weights[current])),
        shadow=SelectiveFigures(coverage=float(shadow.mean()), risk=mean_of(shadow_loss[shadow], weights[shadow])),
    )


def _answered(name: str, actions: Any) -> Mask:
    column = column_of(name, actions)
    if not len(column):
        raise InvalidInput(f"{name} is empty")
    for action in column:
        one_of(name, action, ACTIONS)
    return np.array([action == "answer" for action in column], dtype=bool)
