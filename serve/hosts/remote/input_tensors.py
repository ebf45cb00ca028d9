"""Inputs as tensors of the Open Inference Protocol."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.inference_protocol.columns import datatype_of_column
from demur.serve.contract.inference_protocol.tensors import NUMPY, Tensor
from demur.serve.contract.inputs import ModelInput, TableRow, TextPair
from demur.serve.hosts.kind import BadModelOutput
from demur.serve.hosts.remote.input_values import json_value, pixels_of


def tensors_of(inputs: Sequence[ModelInput], host: RemoteSettings) -> list[Tensor]:
    """Return the tensors of a request. A server that takes no batches gets one input, without the dimension that counts
    rows. Raises `BadModelOutput` for a number that the datatype does not have."""
    kind, name = host.input.kind, host.tensor.name
    if kind == "image":
        pixels = np.stack([pixels_of(cast(NDArray[Any], value), host) for value in inputs]).astype(np.float64)
        datatype = host.tensor.datatype or "FP32"
        values = np.rint(pixels * 255) if datatype == "UINT8" else pixels
        return [_numbers(name, values, datatype, host, pixels.shape[1:])]
    if kind == "table" and host.columns == "together":
        rows = np.array([cast(TableRow, row).cells for row in inputs], dtype=np.float64)  # None becomes NaN
        return [_numbers(name, rows, host.tensor.datatype or "FP32", host, rows.shape[1:])]
    if kind == "table" and host.columns == "apart":
        return _columns([cast(TableRow, row) for row in inputs], host)
    if kind == "text_pair" and host.columns == "apart":
        pairs = [cast(TextPair, pair) for pair in inputs]
        sides = {"text": [pair.text for pair in pairs], "text_pair": [pair.text_pair for pair in pairs]}
        return [_texts(host.tensor.names.get(side, side), texts, host) for side, texts in sides.items()]
    if kind == "text":
        return [_texts(name, cast(Sequence[str], inputs), host)]
    if kind == "bytes":
        binary = host.binary or host.protocol == "oip_grpc"
        raw = [value if binary else str(json_value(value, host)).encode() for value in cast(Sequence[bytes], inputs)]
        return [_bytes(name, raw, host)]
    return [_bytes(name, [orjson.dumps(json_value(value, host)) for value in inputs], host)]


def datatype_of(host: RemoteSettings, column: str | None = None) -> str:
    """Return the datatype of the tensor for a column, or of the one tensor."""
    tensor = host.tensor
    if column is not None and host.input.kind == "table":
        plainest = datatype_of_column(host.input.columns[column])
        return plainest if plainest == "BYTES" else tensor.datatype or plainest
    numbers = host.input.kind == "image" or (host.input.kind == "table" and host.columns == "together")
    return (tensor.datatype or "FP32") if numbers else "BYTES"


def names_of(host: RemoteSettings) -> dict[str, str]:
    """Return the tensors that are sent, by their names, each with its datatype."""
    if host.columns != "apart":
        return {host.tensor.name: datatype_of(host)}
    columns = host.input.columns if host.input.kind == "table" else ("text", "text_pair")
    return {host.tensor.names.get(column, column): datatype_of(host, column) for column in columns}


def row_shape_of(host: RemoteSettings) -> tuple[int, ...]:
    """Return the shape of one row in a tensor."""
    if host.tensor.row_shape is not None:
        return host.tensor.row_shape
    one = host.input
    if one.kind == "image":
        sides = (one.height, one.width)
        return (*sides, one.channels) if host.layout == "nhwc" else (one.channels, *sides)
    return (len(one.columns),) if one.kind == "table" and host.columns == "together" else ()


def _columns(rows: Sequence[TableRow], host: RemoteSettings) -> list[Tensor]:
    """A tensor for each column. A text that is missing is empty."""
    tensors = []
    for at, column in enumerate(host.input.columns):
        name, datatype = host.tensor.names.get(column, column), datatype_of(host, column)
        cells = [row.cells[at] for row in rows]
        if datatype == "BYTES":
            tensors.append(_texts(name, ["" if cell is None else str(cell) for cell in cells], host))
        else:
            tensors.append(_numbers(name, np.array(cells, dtype=np.float64), datatype, host, ()))
    return tensors


def _numbers(
    name: str, values: NDArray[np.float64], datatype: str, host: RemoteSettings, own: tuple[int, ...]
) -> Tensor:
    """Make a tensor of numbers [n, ...]. `own` is the shape of a row where none is configured."""
    kind = NUMPY[datatype]
    with np.errstate(over="ignore", invalid="ignore"):
        cast_values = values.astype(kind)
        kept = np.isfinite(cast_values) if kind.kind == "f" else cast_values == values
    if not (kept | (np.isnan(values) & (kind.kind == "f"))).all():
        raise BadModelOutput(f"an input has a number in {name!r} that {datatype} cannot hold; see host.tensor.datatype")
    return Tensor(name, datatype, shape := _shape(len(values), host, own), cast_values.reshape(shape))


def _texts(name: str, texts: Sequence[str], host: RemoteSettings) -> Tensor:
    return _bytes(name, [text.encode() for text in texts], host)


def _bytes(name: str, elements: list[bytes], host: RemoteSettings) -> Tensor:
    return Tensor(name, "BYTES", _shape(len(elements), host, ()), elements)


def _shape(rows: int, host: RemoteSettings, own: tuple[int, ...]) -> tuple[int, ...]:
    one = own if host.tensor.row_shape is None else host.tensor.row_shape
    return (rows, *one) if host.takes_batches else one or (1,)
