"""The conformal quantile: what scores of right labels exceed with a chosen probability (Vovk et al. 2005)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    finite,
    fraction,
    probability_rows,
    real_number,
    same_length,
    snapped_ceil,
)

Method = Literal["finite", "plain"]


def error_rate(alpha: Any) -> float:
    """Return `alpha` if it lies strictly between 0 and 1."""
    return fraction("alpha", real_number("alpha", alpha), open_low=True, open_high=True)


def labelled(probabilities: Any, classes: Any) -> tuple[Array, NDArray[np.intp]]:
    """Return `probabilities` [n, C] that the model was not trained on, and the index [n] of each row's right label."""
    rows = probability_rows("probabilities", probabilities)
    return rows, right_labels(classes, rows)


def right_labels(classes: Any, rows: Array) -> NDArray[np.intp]:
    """Return the index [n] of the right label of each of `rows` [n, C]."""
    right = np.asarray(classes)
    same_length(rows=rows, classes=right)
    if right.ndim != 1 or right.dtype.kind not in "iu" or right.min() < 0 or right.max() >= rows.shape[1]:
        raise InvalidInput(f"classes is not a list of indices of {rows.shape[1]} labels")
    return right.astype(np.intp, copy=False)


def labels_needed(alpha: float) -> int:
    """Return the smallest number of labelled rows from which `conformal_quantile` is finite."""
    return snapped_ceil(1 / alpha) - 1


def conformal_quantile(scores: Any, alpha: float, *, method: Method = "finite") -> float:
    """Return the k-th smallest of `scores` [n], k = ceil((n + 1)(1 - alpha)); +inf when k > n.

    A set of all options with score <= this value covers the truth with probability at least 1 - alpha.
    `method="plain"` takes k = ceil(n (1 - alpha)) and falls short of that; it is there to reproduce papers.
    An order statistic, not numpy.quantile: its interpolations return a neighbouring one.
    """
    values = finite("scores", scores)
    error_rate(alpha)
    if method not in ("finite", "plain"):
        raise InvalidInput(f"method is {method!r}; it is 'finite' or 'plain'")
    rank = snapped_ceil((len(values) + (method == "finite")) * (1 - alpha))
    if 1 <= rank <= len(values):
        values = np.partition(values, rank - 1)  # as good as sorted for this rank
    return order_statistic(values, rank)


def order_statistic(ranked: Sequence[float] | Array, rank: int) -> float:
    """Return the value of this rank, counted from 1, of values in order; past either end it is infinite."""
    if rank < 1:
        return -np.inf
    return float(ranked[rank - 1]) if rank <= len(ranked) else np.inf


def quantile_at(ranked: Sequence[float] | Array, level: float) -> float:
    """Return the conformal quantile of scores in order at any error level: +inf, which lets every option in, at 0 or
    below, and -inf, which lets none in, from 1 on."""
    if level <= 0 or level >= 1:
        return np.inf if level <= 0 else -np.inf
    return order_statistic(ranked, snapped_ceil((len(ranked) + 1) * (1 - level)))


def conformal_sets(option_scores: Any, qhat: float) -> list[list[int]]:
    """Return, for each row of `option_scores` [n, C], the options with score <= `qhat`.

    Scores are higher for less likely options. An infinite `qhat` admits every option or none.
    """
    rows, limit = finite("option_scores", option_scores, ndim=2), real_number("qhat", qhat, infinite=True)
    return [np.flatnonzero(row <= limit).tolist() for row in rows]
