"""Numbers in the output that a request brings."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.reading.texts import kind_of

Vector = NDArray[np.float64]


def is_number(value: Any) -> bool:
    """Whether it is a number, and not true or false."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_or_nan(place: str, value: Any) -> float:
    """Return a number; NaN, which is unknown and held, for null and for one that is infinite or too large. Raises
    `InvalidRequest`."""
    if value is None:
        return math.nan
    if not is_number(value):
        raise InvalidRequest(f"{place}: a number or null is wanted here, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


def numbers_in(place: str, value: Any) -> Vector:
    """Return a list of finite numbers. Raises `InvalidRequest`."""
    if not isinstance(value, list | tuple):
        raise InvalidRequest(f"{place}: a list of numbers is wanted here, not {kind_of(value)}")
    if not all(is_number(one) for one in value):
        at, other = next((at, one) for at, one in enumerate(value, start=1) if not is_number(one))
        raise InvalidRequest(f"{place}: a list of numbers is wanted here, and number {at} of it is {kind_of(other)}")
    try:
        numbers = np.array(value, dtype=np.float64)
    except OverflowError:
        numbers = np.array([np.inf])
    if not np.isfinite(numbers).all():
        raise InvalidRequest(f"{place}: a number in it is not finite")
    return numbers
