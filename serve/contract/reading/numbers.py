"""Pictures that come as nested lists of numbers, and arrays of a protocol that sends them as such."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.serve.contract.inputs import InputSpec, InvalidRequest

MOST_DIMENSIONS = 8


class NoArray(ValueError):
    """The lists cannot be an array."""


class RaggedArray(NoArray):
    """Lists at the same depth differ in length, or are nested too deeply."""


class NotNumbers(NoArray):
    """In the lists there is something other than numbers."""


def array_of(lists: list[Any], *, nulls: bool = False) -> NDArray[Any]:
    """Return nested lists of numbers, or of booleans, as an array; raise `RaggedArray` or `NotNumbers`. Where there may
    be `nulls`, each is NaN.

    NumPy never sees a text here: it would make room for the longest text at the place of every number.
    """
    shape, parts = [len(lists)], lists
    while parts and type(parts[0]) is list:
        lengths = {len(part) if type(part) is list else -1 for part in parts}
        if len(lengths) > 1 or len(shape) == MOST_DIMENSIONS:
            raise RaggedArray
        shape += lengths
        parts = list(chain.from_iterable(parts))
    kinds = set(map(type, parts))
    if list in kinds:
        raise RaggedArray
    if nulls and type(None) in kinds:
        parts = [math.nan if part is None else part for part in parts]
        kinds = {*kinds - {type(None)}, float}
    if not kinds <= {int, float, bool}:
        raise NotNumbers
    try:
        return np.array(parts).reshape(shape)
    except OverflowError:
        raise NotNumbers from None


def read_numbers(value: list[Any] | NDArray[Any], spec: InputSpec) -> NDArray[np.float32]:
    """Return the pixels of one image [channels, height, width]; raise `InvalidRequest` where they are none."""
    shape = shape_of(spec)
    wanted = " x ".join(str(side) for side in shape)
    try:
        array = array_of(value) if isinstance(value, list) else value
    except RaggedArray:
        raise InvalidRequest(f"input: the rows differ in length; this model takes {wanted} numbers") from None
    except NotNumbers:
        raise InvalidRequest(f"input: only numbers are taken, {wanted} of them") from None
    if array.size and array.dtype.kind not in "fiu":
        raise InvalidRequest(f"input: only numbers are taken, {wanted} of them")
    if array.shape != shape:
        here = " x ".join(str(side) for side in array.shape)
        raise InvalidRequest(f"input: the shape is {here}; this model takes {wanted}")
    if not np.isfinite(array).all():
        raise InvalidRequest("input: a pixel is NaN or infinite")
    if array.min() < 0 or array.max() > 1:
        raise InvalidRequest(
            f"input: pixels lie in [0, 1], and these reach from {array.min():g} to {array.max():g}; scale them first"
        )
    pixels = array.astype(np.float32)
    return pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def read_all_numbers(values: Sequence[Any], spec: InputSpec) -> NDArray[np.float32] | None:
    """Return [n, channels, height, width] where all are nested lists of the right shape, and pixels; None where not."""
    shape = len(values), *shape_of(spec)
    numbers: list[Any] = list(values)
    for length in shape[1:]:  # flat, because a nested list is slow to read
        if set(map(type, numbers)) != {list} or set(map(len, numbers)) != {length}:
            return None
        numbers = list(chain.from_iterable(numbers))
    if not set(map(type, numbers)) <= {float, int}:
        return None
    try:
        array = np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None
    if not (array.min() >= 0 and array.max() <= 1):  # nor where there is a NaN
        return None
    pixels = array.astype(np.float32).reshape(shape)
    return pixels[:, np.newaxis] if spec.channels == 1 else np.moveaxis(pixels, -1, 1)


def shape_of(spec: InputSpec) -> tuple[int, ...]:
    """The shape of the nested numbers of one image."""
    return (spec.height, spec.width) if spec.channels == 1 else (spec.height, spec.width, spec.channels)
