"""Distances between the rows of two arrays."""

from typing import Literal

import numpy as np

from demur.uncertainty.checks import Array


def row_distances(these: Array, those: Array, *, metric: Literal["euclidean", "sqeuclidean"] = "euclidean") -> Array:
    """Return the distance [n, m] of each row of `these` [n, d] to each row of `those` [m, d]."""
    from scipy.spatial.distance import cdist  # here, because only hosts and fits measure, and others are lighter so

    return np.asarray(cdist(these, those, metric=metric))
