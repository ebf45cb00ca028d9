"""Names of classes and groups as small whole numbers, so that counting them is counting numbers."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import InvalidInput

Codes = NDArray[np.intp]


def encode(**columns: Any) -> tuple[list[Codes], int]:
    """Return each named column [n] of class names as codes below C, the same for the same name in each, and C.

    Names are numbers, strings, or whatever else can be told apart. Some codes may be unused.
    """
    arrays = {name: _column(name, values) for name, values in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        raise InvalidInput("lengths differ: " + ", ".join(f"{name} {n}" for name, n in lengths.items()))
    kinds = {array.dtype.kind for array in arrays.values()}
    if kinds <= set("biu"):
        return _whole(list(arrays.values()))
    if kinds <= set("biuf") or kinds == {"U"}:
        names, codes = np.unique(np.concatenate(list(arrays.values())), return_inverse=True)
        return np.split(codes, len(arrays)), len(names)
    known: dict[Hashable, int] = {}
    return [_numbered(name, array.tolist(), known) for name, array in arrays.items()], len(known)


def grouped(name: str, values: Any) -> tuple[Codes, list[Any]]:
    """Return [n] codes of the group names, and the names, in the order in which they first appear."""
    known: dict[Hashable, int] = {}
    codes = _numbered(name, _column(name, values).tolist(), known)
    return codes, list(known)


def _column(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        array = values
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        array = from_list(name, values)
    else:
        raise InvalidInput(f"{name} is not a list or an array")
    if array.ndim != 1:
        raise InvalidInput(f"{name} has {array.ndim} axes, not 1")
    if array.size == 0:
        raise InvalidInput(f"{name} is empty")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInput(f"{name} holds NaN or infinity")
    return array


def from_list(name: str, values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of numbers, or of the entries as they are."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} is not a plain list: {error}") from None
    if array.dtype.kind in "biuf" or array.ndim != 1:
        return array
    array = np.empty(len(values), dtype=object)  # as they are: numpy would make 1 and "1" the same string
    array[:] = values
    return array


def _numbered(name: str, values: Sequence[Any], known: dict[Hashable, int]) -> Codes:
    try:
        codes = np.fromiter((known.setdefault(value, len(known)) for value in values), np.intp, len(values))
    except TypeError as error:
        raise InvalidInput(f"{name} holds something that cannot be told apart from others: {error}") from None
    if any(value is None or value != value for value in known):
        raise InvalidInput(f"{name} holds NaN or nothing")
    return codes


def _whole(arrays: list[NDArray[Any]]) -> tuple[list[Codes], int]:
    low = min(int(array.min()) for array in arrays)
    span = max(int(array.max()) for array in arrays) - low + 1
    if span > 2 * sum(map(len, arrays)) + 1000:  # a few large numbers: number them anew
        names, codes = np.unique(np.concatenate(arrays), return_inverse=True)
        return np.split(codes, len(arrays)), len(names)
    if low == 0:
        return [array.astype(np.intp, copy=False) for array in arrays], span
    return [array.astype(np.intp) - low for array in arrays], span
