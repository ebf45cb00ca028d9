"""Which share of labels a set leaves out, and a limit that keeps the share of the labels that hold (METHODS 10.4)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from demur.policies.conformal import error_rate
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    ascending,
    finite,
    indicators,
    same_length,
    whole_number,
)

SLACK = 1e-9

ShareOf = Literal["labels", "rows"]
"""A share of all labels that hold, or the mean over rows of the share of a row's labels."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelsMissed:
    """What sets of labels leave out, row by row, at each of J limits."""

    missed: Array
    """[n, J], the labels that hold and are not in the set."""

    held: Array
    """[n], the labels that hold."""

    share: Array
    """[n, J], missed / held; 0 where no label holds."""


@dataclass(frozen=True, kw_only=True)
class LabelShareLimit:
    """The chosen limit; if none is safe, the last one, and `feasible` is False: then the full set is to be served."""

    limit: float
    index: int
    feasible: bool
    share: float
    """Of the labels that held in the fitted rows, those that are missed at this limit; NaN where none held."""


def missed_labels(option_scores: Any, targets: Any, lambdas: Any) -> LabelsMissed:
    """Return what the sets {label: score <= lambda} leave out of the labels that hold.

    `option_scores` [n, L] are higher for less likely labels, such as 1 - p; `targets` [n, L] are 0/1; `lambdas` [J]
    rise strictly. A row in which no label holds misses nothing.
    """
    scores, truth = finite("option_scores", option_scores, ndim=2), indicators("targets", targets)
    limits = _rising(lambdas)
    if scores.shape != truth.shape:
        raise InvalidInput(f"option_scores are {scores.shape}, targets {truth.shape}")
    row, label = np.nonzero(truth)
    reach = np.searchsorted(limits, scores[row, label], side="left")  # so many limits miss the label
    held = np.bincount(row, minlength=len(scores)).astype(np.float64)
    ends = np.zeros((len(scores), len(limits) + 1))
    np.add.at(ends, (row, reach), 1.0)
    missed = held[:, None] - np.cumsum(ends, axis=1)[:, :-1]
    return LabelsMissed(missed=missed, held=held, share=missed / np.maximum(held, 1)[:, None])


def label_share_control(missed: Any, held: Any, lambdas: Any, alpha: float, max_labels: int) -> LabelShareLimit:
    """Return the smallest of the rising `lambdas` [J] with sum missed + (1 - alpha) B <= alpha sum held.

    `missed` [n, J] counts the labels that hold and are left out at each lambda and never rises along a row; `held` [n]
    counts the labels that hold. B = `max_labels` is the largest number of labels that a row can hold: it is declared,
    and never read off the data. For further rows drawn like these, E[missed] <= alpha E[held], on average over fits:
    of the labels that hold, at most a share `alpha` is missing. Assumes that nothing is missed at the end of the grid
    or that the full set is served. It says nothing of one fit, one row or one label (conformal risk control of
    missed - alpha held, after Angelopoulos et al. 2022).
    """
    lost, holds, limits = finite("missed", missed, ndim=2), finite("held", held), _rising(lambdas)
    same_length(missed=lost, held=holds)
    error_rate(alpha)
    most = whole_number("max_labels", max_labels, least=1)
    if lost.shape[1] != len(limits):
        raise InvalidInput(f"missed has {lost.shape[1]} columns for {len(limits)} lambdas")
    if lost.min() < 0 or (lost != np.floor(lost)).any() or (holds != np.floor(holds)).any():
        raise InvalidInput("missed and held are counts: whole numbers of 0 or more")
    if (lost > holds[:, None]).any():
        raise InvalidInput("missed is above held in some row")
    if holds.max() > most:
        raise InvalidInput(f"a row holds {holds.max():g} labels, above max_labels = {most}")
    if (np.diff(lost, axis=1) > 0).any():
        raise InvalidInput("missed rises with lambda in some row")
    return controlled_label_share(lost.sum(axis=0), float(holds.sum()), limits, alpha, most)


def controlled_label_share(missed: Array, held: float, limits: Array, alpha: float, max_labels: int) -> LabelShareLimit:
    """Return what `label_share_control` returns, from the totals over rows: `missed` [J] and `held`."""
    allowed = alpha * held
    safe = np.flatnonzero(missed + (1 - alpha) * max_labels <= allowed + SLACK * max(1.0, allowed))
    index = int(safe[0]) if len(safe) else len(limits) - 1
    return LabelShareLimit(
        limit=float(limits[index]),
        index=index,
        feasible=len(safe) > 0,
        share=float(missed[index] / held) if held else np.nan,
    )


def labels_that_must_hold(alpha: float, max_labels: int) -> int:
    """Return how many labels must hold in the fitted rows before any limit is feasible: (1 - alpha) B / alpha."""
    return int(np.ceil((1 - alpha) * max_labels / alpha * (1 - SLACK)))


def _rising(lambdas: Any) -> Array:
    limits = ascending("lambdas", lambdas)
    if (np.diff(limits) <= 0).any():
        raise InvalidInput("lambdas repeats a value")
    return limits
