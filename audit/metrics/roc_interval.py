"""How far the area under the ROC curve of a score may be from the truth (DeLong, DeLong & Clarke-Pearson 1988)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.intervals import normal_quantile
from demur.uncertainty.checks import Array, finite, outcomes, same_length


@dataclass(frozen=True, kw_only=True)
class RocInterval:
    """The chance that an error ranks above a right answer; NaN where there are none of either, and ends that are NaN
    where there are fewer than two."""

    value: float
    lower: float
    upper: float
    n_errors: int
    n_right: int


def error_roc_interval(correct: Any, u: Any, delta: Any = 0.05) -> RocInterval:
    """The area of the score `u` [n] for finding errors among 0/1 `correct` [n], and its normal interval, clipped.

    Ties count a half. All rows must have had the same chance of a label. Of very few errors the interval means little,
    and where they are all ranked apart from the rest it has no width.
    """
    z = normal_quantile(delta)
    right, scores = outcomes("correct", correct) == 1, finite("u", u)
    same_length(correct=right, u=scores)
    errors, others = scores[~right], scores[right]
    if not len(errors) or not len(others):
        return RocInterval(value=np.nan, lower=np.nan, upper=np.nan, n_errors=len(errors), n_right=len(others))
    above = _share_below(errors, others)  # of each error: the share of right answers that it ranks above
    under = 1 - _share_below(others, errors)
    value = float(above.mean())
    half = np.nan
    if min(len(errors), len(others)) > 1:
        half = z * float(np.sqrt(above.var(ddof=1) / len(errors) + under.var(ddof=1) / len(others)))
    return RocInterval(
        value=value,
        lower=float(np.maximum(value - half, 0.0)),
        upper=float(np.minimum(value + half, 1.0)),
        n_errors=len(errors),
        n_right=len(others),
    )


def _share_below(values: Array, others: Array) -> Array:
    """[n], the share of `others` [m] below each value, ties counting a half."""
    ranked = np.sort(others)
    below, up_to = (np.searchsorted(ranked, values, side=side) for side in ("left", "right"))
    return np.asarray((below + up_to) / (2 * len(others)))
