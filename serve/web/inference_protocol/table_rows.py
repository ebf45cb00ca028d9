"""Rows of a table from tensors: one with all numbers, or one for each column. Pairs of texts come as two columns."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from demur.library.nearest import one_of
from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inference_protocol.columns import columns_of, datatypes_taken
from demur.serve.contract.inference_protocol.tensors import Tensor
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.serve.web.inference_protocol.elements import text_in


def takes_matrix(spec: InputSpec) -> bool:
    """Whether it takes rows of a table of which every column is a number, or true or false."""
    return spec.kind == "table" and all(column.is_numeric for column in spec.columns.values())


def matrix_rows(tensor: Tensor, spec: InputSpec) -> list[list[Any]]:
    """Return the rows of one tensor [n, columns] of numbers: NaN for what is missing, 1 for true and 0 for false."""
    assert not isinstance(tensor.values, list)
    wanted = len(spec.columns)
    if tensor.shape[1:] != (wanted,):
        raise InvalidRequest(f"inputs.0.shape: it is {list(tensor.shape)}; this model takes [-1, {wanted}]")
    columns = list(spec.columns.values())
    return [[_cell(*one) for one in zip(row, columns, strict=True)] for row in tensor.values.tolist()]


def column_rows(tensors: Sequence[Tensor], spec: InputSpec) -> list[dict[str, Any]]:
    """Return the rows of tensors [n] or [n, 1], one for each column, as objects. Raises `InvalidRequest`."""
    columns = columns_of(spec)
    _check_names([tensor.name for tensor in tensors], columns)
    found = {}
    for at, tensor in enumerate(tensors):
        if tensor.shape[0] != (n := tensors[0].shape[0]):
            raise InvalidRequest(
                f"inputs.{at}.shape: it has {tensor.shape[0]:,} rows, and {tensors[0].name!r} has {n:,}"
            )
        found[tensor.name] = _cells(tensor, columns[tensor.name], f"inputs.{at}")
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def _check_names(names: Sequence[str], columns: Mapping[str, ColumnConfig]) -> None:
    for at, name in enumerate(names):
        if name not in columns:
            raise InvalidRequest(f"inputs.{at}.name: {one_of(name, columns)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequest(f"inputs: the column {twice!r} comes twice; send one tensor for each column")
    given = set(names)
    if lacking := [name for name, column in columns.items() if name not in given and not column.missing]:
        raise InvalidRequest(f"inputs: there is no tensor {lacking[0]!r}, and this model needs that column")


def _cells(tensor: Tensor, column: ColumnConfig, place: str) -> list[Any]:
    if tensor.datatype not in (taken := datatypes_taken(column)):
        raise InvalidRequest(
            f"{place}.datatype: {tensor.name!r} is a column of the kind {column.kind} and comes as"
            f" {', '.join(taken)}; not as {tensor.datatype}"
        )
    if tensor.shape not in ((n := tensor.shape[0],), (n, 1)):
        raise InvalidRequest(f"{place}.shape: it is {list(tensor.shape)}; a column is [-1] or [-1, 1]")
    if not isinstance(tensor.values, list):
        return [_cell(value, column) for value in tensor.values.ravel().tolist()]
    texts = [text_in(element, f"{place}: row {at}") for at, element in enumerate(tensor.values)]
    return [None if column.missing and not text else text for text in texts]


def _cell(number: float, column: ColumnConfig) -> float | bool | None:
    """A number as JSON has it at /v1/predict."""
    if math.isnan(number):
        return None
    return number == 1 if column.kind == "boolean" and number in (0, 1) else number
