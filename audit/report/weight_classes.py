"""An upper end for the risk where labels have different weights, which a heavy label that is missing cannot lower.

A label of weight 50 is worth ten of weight 5, and where such labels are few it is often chance alone that none of them
is an error. Resampling what is there never shows what is not: its upper end is then too low, and a promise that is
just not kept looks kept too often.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from uncertainty.checks import Array


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
