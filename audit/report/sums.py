"""Sums by place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array


def summed(places: NDArray[np.intp], amounts: Array, size: int) -> Array:
    """[size], the sum of the amounts [n] that go to each place."""
    return np.asarray(np.bincount(places, weights=amounts, minlength=size), dtype=np.float64)


def numbered(places: NDArray[np.intp], size: int) -> Array:
    """[size], how many go to each place."""
    return np.asarray(np.bincount(places, minlength=size), dtype=np.float64)


def added_up(arrays: Sequence[Array]) -> Array:
    """Arrays of one shape, one on top of the other."""
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total
