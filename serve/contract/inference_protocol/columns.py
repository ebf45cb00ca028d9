"""Columns of a table, and the two sides of a pair of texts, as tensors of their own."""

from collections.abc import Mapping

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inference_protocol.tensors import NUMPY
from demur.serve.contract.inputs import InputSpec

TEXT_PAIR = {"text": ColumnConfig(kind="text"), "text_pair": ColumnConfig(kind="text")}

NUMBERS = tuple(name for name in NUMPY if name != "BOOL")


def columns_of(spec: InputSpec) -> Mapping[str, ColumnConfig]:
    """Return what may come as a tensor for each: columns by their names; nothing for other kinds of input."""
    return {"table": spec.columns, "text_pair": TEXT_PAIR}.get(spec.kind, {})


def datatype_of_column(column: ColumnConfig) -> str:
    """Return the plainest datatype that holds every value of a column. What may be missing is NaN, which only FP64
    has; a text that is missing is empty."""
    if not column.is_numeric:
        return "BYTES"
    whole = {"integer": "INT64", "boolean": "BOOL"}
    return "FP64" if column.missing else whole.get(column.kind, "FP64")


def datatypes_taken(column: ColumnConfig) -> tuple[str, ...]:
    """Return the datatypes in which a column may come. True and false may come as 1 and 0."""
    if not column.is_numeric:
        return ("BYTES",)
    return NUMBERS if column.kind in ("number", "integer") else ("BOOL", *NUMBERS)
