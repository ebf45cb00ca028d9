"""Tensors of the protocol: from what a client sends, as JSON or as bytes, and back."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.serve.contract.body import MOST_VALUES
from demur.serve.contract.inputs import InvalidRequest, TooLarge
from demur.serve.contract.reading.numbers import MOST_DIMENSIONS, NotNumbers, array_of

Datatype = Literal[
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BYTES",
]

NUMPY: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}


@dataclass(frozen=True, kw_only=True)
class TensorBounds:
    """What is taken of a tensor that somebody sends."""

    datatypes: tuple[str, ...]
    most_rows: int
    """The first dimension counts rows."""

    nulls: bool = False
    """Whether null in JSON stands for a number that is undefined."""


REQUESTED = TensorBounds(datatypes=(*NUMPY, "BYTES"), most_rows=1024, nulls=True)
"""What the models here are asked with; `limits.batch` is never more than these rows. Which datatypes a model takes, and
whether a number may be missing, hangs on the model."""

LENGTH_BYTES = 4
"""Before each element of BYTES, where it is sent as bytes, stands its length."""


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]
    values: NDArray[Any] | list[bytes]
    """An array of this shape; of BYTES, a flat list of its elements, the last dimension running fastest."""

    @property
    def size(self) -> int:
        """Bytes of its data."""
        return sum(map(len, self.values)) if isinstance(self.values, list) else self.values.nbytes


def tensor_from_json(
    name: str, datatype: str, shape: Sequence[int], data: Any, *, place: str, bounds: TensorBounds = REQUESTED
) -> Tensor:
    """Read data that is nested as the shape says, or flat."""
    count = _count(datatype, shape, place, bounds)
    if not isinstance(data, list):
        raise InvalidRequest(f"{place}.data: a list is wanted, flat or nested as the shape is")
    try:
        array = np.asarray(data, dtype=object) if datatype == "BYTES" else array_of(data, nulls=bounds.nulls)
    except NotNumbers:
        raise InvalidRequest(_no_such(datatype, place)) from None
    except ValueError:
        raise InvalidRequest(f"{place}.data: its lists differ in length") from None
    if array.shape != tuple(shape) and array.shape != (count,):
        here = " x ".join(map(str, array.shape))
        raise InvalidRequest(f"{place}.data: there are {here} elements; the shape says {_product(shape)}")
    if datatype == "BYTES":
        texts = array.ravel().tolist()
        if not all(isinstance(text, str) for text in texts):
            raise InvalidRequest(f"{place}.data: of BYTES, the elements are texts")
        return Tensor(name, datatype, tuple(shape), [text.encode() for text in texts])
    return Tensor(name, datatype, tuple(shape), _numbers(array, datatype, place).reshape(shape))


def tensor_from_elements(
    name: str, datatype: str, shape: Sequence[int], elements: list[Any], *, place: str, bounds: TensorBounds = REQUESTED
) -> Tensor:
    """Read elements that are of the datatype already, or close to it."""
    count = _count(datatype, shape, place, bounds)
    if len(elements) != count:
        raise InvalidRequest(f"{place}.contents: there are {len(elements)} elements; the shape says {_product(shape)}")
    if datatype == "BYTES":
        return Tensor(name, datatype, tuple(shape), elements)
    return Tensor(name, datatype, tuple(shape), _numbers(np.asarray(elements), datatype, place).reshape(shape))


def tensor_from_bytes(
    name: str, datatype: str, shape: Sequence[int], raw: memoryview, *, place: str, bounds: TensorBounds = REQUESTED
) -> Tensor:
    """Read data as the extension for binary tensors has it: little-endian, the last dimension running fastest. Arrays
    look into `raw`; nothing is copied."""
    count = _count(datatype, shape, place, bounds)
    if datatype == "BYTES":
        return Tensor(name, datatype, tuple(shape), _elements(raw, count, place))
    kind = NUMPY[datatype]
    if len(raw) != count * kind.itemsize:
        raise InvalidRequest(
            f"{place}: there are {len(raw):,} bytes of data; {_product(shape)} elements of {datatype} have"
            f" {count * kind.itemsize:,}"
        )
    if datatype == "BOOL" and not np.isin(np.frombuffer(raw, np.uint8), (0, 1)).all():
        raise InvalidRequest(f"{place}: of BOOL, each byte is 0 or 1")
    return Tensor(name, datatype, tuple(shape), np.frombuffer(raw, kind).reshape(shape))


def json_of(tensor: Tensor) -> list[Any]:
    """The data, flat. `wire.dump` makes null of what is NaN, since JSON has no NaN."""
    if isinstance(tensor.values, list):
        return [element.decode() for element in tensor.values]
    flat: list[Any] = tensor.values.ravel().tolist()
    return flat


def bytes_of(tensor: Tensor) -> bytes:
    """The data as the extension for binary tensors has it."""
    if isinstance(tensor.values, list):
        return b"".join(
            part for element in tensor.values for part in (len(element).to_bytes(LENGTH_BYTES, "little"), element)
        )
    return tensor.values.tobytes()


def _count(datatype: str, shape: Sequence[int], place: str, bounds: TensorBounds) -> int:
    """How many elements there must be; whether so many were sent is for the caller to see before it makes room."""
    if datatype not in bounds.datatypes:
        raise InvalidRequest(f"{place}.datatype: {datatype!r} is not taken; there are: {', '.join(bounds.datatypes)}")
    if not 1 <= len(shape) <= MOST_DIMENSIONS:
        raise InvalidRequest(f"{place}.shape: a tensor has 1 to {MOST_DIMENSIONS} dimensions here")
    if any(not 1 <= size < 2**63 for size in shape):
        raise InvalidRequest(f"{place}.shape: the size of each dimension is from 1 to 2^63 - 1")
    if shape[0] > bounds.most_rows:
        raise TooLarge(f"the request has {shape[0]:,} rows; at most {bounds.most_rows:,} are taken")
    return math.prod(shape)


def _numbers(array: NDArray[Any], datatype: str, place: str) -> NDArray[Any]:
    kind = NUMPY[datatype]
    taken = {"b": "b", "f": "fiu"}.get(kind.kind, "iu")
    if array.dtype.kind not in taken:
        raise InvalidRequest(_no_such(datatype, place))
    if kind.kind in "iu":
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
        if int(array.min()) < least or int(array.max()) > most:
            raise InvalidRequest(f"{place}.data: of {datatype}, the elements are from {least} to {most}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which no model takes
        return array.astype(kind)


def _no_such(datatype: str, place: str) -> str:
    return f"{place}.data: there are elements that are no {datatype}"


def _elements(raw: memoryview, count: int, place: str) -> list[bytes]:
    if count > MOST_VALUES:
        raise TooLarge(f"{place}: there are {count:,} elements of BYTES; at most {MOST_VALUES:,} are taken at once")
    elements: list[bytes] = []
    at = 0
    while at < len(raw) and len(elements) < count:
        start = at + LENGTH_BYTES
        end = start + int.from_bytes(raw[at:start], "little")
        if end > len(raw):
            break
        elements.append(bytes(raw[start:end]))
        at = end
    if at != len(raw) or len(elements) != count:
        raise InvalidRequest(
            f"{place}: the data is not {count:,} elements of BYTES, each with its length before it in {LENGTH_BYTES}"
            " bytes, little-endian"
        )
    return elements


def _product(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
