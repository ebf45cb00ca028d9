"""Upper ends for the risk where resampling ends too low: of labels of different weights, and of few clusters.

A label of weight 50 is worth ten of weight 5, and where such labels are few it is often chance alone that none of them
is an error. Resampling what is there never shows what is not: its upper end is then too low, and a promise that is
just not kept looks kept too often.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from demur.audit.metrics.intervals import normal_quantile
from demur.audit.metrics.resampling import Interval
from demur.uncertainty.checks import Array


def upper_end(loss: Array, weight: Array, count: NDArray[np.int64], delta: float) -> float:
    """Return an upper end at error level delta / 2 for the weighted mean of losses in [0, 1].

    Of each distinct pair [u] of a loss and a weight it takes how often it came. Labels within a factor of two of
    weight are one class. Each class has the exact bound of a share (Clopper & Pearson 1934), with the number of labels
    of equal weight that would tell as much; the distances from estimate to bound are added as those of independent
    shares are (Zou & Donner 2008).
    """
    labels = count * weight
    total = labels.sum()
    classes = np.floor(np.log2(weight / weight.min()) + 1e-9).astype(np.intp)

    def of_classes(amounts: Array) -> Array:
        return np.asarray(np.bincount(classes, weights=amounts), dtype=np.float64)

    there = of_classes(labels) > 0
    part, lost, squares = (of_classes(x)[there] for x in (labels, labels * loss, labels * weight))
    mean, n = np.clip(lost / part, 0, 1), part * part / squares
    highest = np.where(mean < 1, betaincinv(mean * n + 1, np.maximum(n - mean * n, 1e-12), 1 - delta / 2), 1.0)
    return min(1.0, float(lost.sum() / total + np.linalg.norm(part / total * (highest - mean))))


def clustered_end(loss: Array, weight: Array, resampled: Interval, delta: float) -> float:
    """Return an upper end at error level delta / 2 for the weighted mean of losses in [0, 1] that depend on each other
    in clusters, [u] each; NaN without a resampled interval.

    The exact bound of a share, of as many independent labels as would give an interval as wide as the resampled one
    (Korn & Graubard 1998).
    """
    size = clustered_size(loss, weight, resampled, delta)
    return resampled.upper if size is None else float(betaincinv(*size, 1 - delta / 2))


def clustered_size(loss: Array, weight: Array, resampled: Interval, delta: float) -> tuple[float, float] | None:
    """Return both parameters of the beta distribution whose quantiles are the upper ends of `clustered_end`; None where
    the resampled interval has no width, or all or nothing is wrong."""
    mean = float(np.clip((weight * loss).sum() / weight.sum(), 0, 1))
    error = (resampled.upper - resampled.lower) / (2 * normal_quantile(delta))
    if not error > 0 or not 0 < mean < 1:
        return None
    n = mean * (1 - mean) / error**2
    return mean * n + 1, n - mean * n
