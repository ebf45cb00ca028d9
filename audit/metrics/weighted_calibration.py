"""Calibration from partial labels: the metrics of `calibration` with a weight for each row (METHODS 9.2).

`confidence` [n] lies in [0, 1] and is checked in every row; `outcome` [n] is 0 or 1 where a row has a label;
`weights` [n] are 1 / label probability, 0 without a label. With equal weights each is its namesake; without a label
each is NaN.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.calibration import Closed, bin_numbers
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.weighted_rows import known_values, mean_of, relative, row_weights
from demur.uncertainty.checks import Array, fraction, one_of, outcomes, same_length, unit_interval, whole_number


@dataclass(frozen=True, kw_only=True)
class WeightedBin:
    """Rows whose confidence falls in one of the M equal intervals; both means are of its labelled rows, or NaN."""

    n: int
    n_labelled: int
    weight: float
    """Sum of the weights: how many rows its labels stand for."""

    confidence: float
    accuracy: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Sums:
    """Per bin [M]: rows, labelled rows, and sums of w, w c and w y."""

    n: NDArray[np.intp]
    n_labelled: NDArray[np.intp]
    weight: NDArray[Any]
    sure: NDArray[Any]
    right: NDArray[Any]


def weighted_bins(
    confidence: Any, outcome: Any, weights: Any, *, n_bins: int = 15, closed: Closed = "left"
) -> list[WeightedBin]:
    """Return the bins of `calibration_bins`: rows of all, means by weight over the labelled ones."""
    c, y, w = _columns(confidence, outcome, weights)
    sums, scale = _bin_sums(c, y, w, n_bins, closed), float(row_weights(weights).max())
    with np.errstate(invalid="ignore"):  # 0 / 0 in a bin without a label is the NaN that is meant
        means = (sums.sure / sums.weight).tolist(), (sums.right / sums.weight).tolist()
    rows = zip(sums.n.tolist(), sums.n_labelled.tolist(), sums.weight.tolist(), *means, strict=True)
    return [WeightedBin(n=n, n_labelled=k, weight=v * scale, confidence=p, accuracy=a) for n, k, v, p, a in rows]


def weighted_ece(confidence: Any, outcome: Any, weights: Any, *, n_bins: int = 15, closed: Closed = "left") -> float:
    """Expected calibration error, sum_m (W_m / W) |accuracy_m - confidence_m|; a bin without a label adds nothing.
    0 is best, but label noise biases it upwards."""
    c, y, w = _columns(confidence, outcome, weights)
    sums = _bin_sums(c, y, w, n_bins, closed)
    return float(np.abs(sums.right - sums.sure).sum() / sums.weight.sum()) if w.any() else np.nan


def weighted_ace(
    confidence: Any, outcome: Any, weights: Any, *, n_bins: int = 10, ranking: Ranking | None = None
) -> float:
    """Adaptive calibration error, in bins of equal mass by rank over all rows, labelled or not. 0 is best.

    A row carries the mean of w (y - c) over its tie group, in which rows without a label count as 0. `ranking` is that
    of `confidence`, when it is there already.
    """
    c, y, w = _columns(confidence, outcome, weights)
    n, m = len(c), whole_number("n_bins", n_bins, least=1)
    ranking = Ranking.by("confidence", c) if ranking is None else ranking
    same_length(confidence=c, ranking=ranking)
    if not w.any():
        return np.nan
    gaps = ranking.ranked(w * (y - c))
    starts = np.unique(np.arange(m) * n // m)
    return float(np.abs(np.add.reduceat(gaps, starts)).sum() / w.sum())


def weighted_brier(confidence: Any, outcome: Any, weights: Any) -> float:
    """Weighted mean squared gap between confidence and outcome. 0 is best."""
    c, y, w = _columns(confidence, outcome, weights)
    return mean_of(np.square(c - y), w)


def weighted_nll(confidence: Any, outcome: Any, weights: Any, *, eps: float = 1e-15) -> float:
    """Weighted mean of -ln max(eps, probability of the outcome), in nats; 0 is best."""
    c, y, w = _columns(confidence, outcome, weights)
    floor = np.log(fraction("eps", eps, open_low=True))
    with np.errstate(divide="ignore"):  # ln 0 is -inf, which the floor replaces
        logs = np.where(y == 1, np.log(c), np.log1p(-c))
    return mean_of(-np.maximum(logs, floor), w)


def weighted_citl(confidence: Any, outcome: Any, weights: Any) -> float:
    """Weighted mean of confidence less outcome, both of the labelled rows; above 0 is over-confident."""
    c, y, w = _columns(confidence, outcome, weights)
    return mean_of(c - y, w)


def weighted_c_slope(confidence: Any, outcome: Any, weights: Any) -> float:
    """Weighted least-squares slope of outcome on confidence: 1 is ideal, below 1 over-confident. NaN where confidence
    is constant among the labelled rows."""
    c, y, w = _columns(confidence, outcome, weights)
    known = w > 0
    c, y, w = c[known], y[known], w[known]
    if not len(c) or c.min() == c.max():
        return np.nan
    span = c.max() - c.min()
    spread = (c - mean_of(c, w)) / span  # of order 1, so that squares of tiny differences do not vanish
    return float((w * spread) @ (y - mean_of(y, w)) / ((w * spread) @ spread) / span)


def _columns(confidence: Any, outcome: Any, weights: Any) -> tuple[Array, Array, Array]:
    w, c = relative(weights), unit_interval("confidence", confidence)
    return c, known_values("outcome", outcome, w, outcomes, confidence=c), w


def _bin_sums(c: Array, y: Array, w: Array, n_bins: int, closed: Closed) -> _Sums:
    m = whole_number("n_bins", n_bins, least=1)
    one_of("closed", closed, ("left", "right"))
    number = bin_numbers(c, m, closed)
    weight, sure, right = (np.bincount(number, weights=x, minlength=m) for x in (w, w * c, w * y))
    return _Sums(
        n=np.bincount(number, minlength=m),
        n_labelled=np.bincount(number[w > 0], minlength=m),
        weight=weight,
        sure=sure,
        right=right,
    )
