"""Inputs that a file spreads over columns, put together for a model."""

import re
from contextlib import suppress
from typing import Any

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import InputSpec, InvalidRequest
from demur.traffic.dataset import GivenRow, SpreadRow

KEYS = {"text_pair": ("text", "text_pair"), "choice": ("question", "options"), "chat": ("messages",)}
"""Kinds of input that are objects of these keys."""

TRUTHS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def gathered(value: Any, spec: InputSpec) -> Any:
    """Return an input as a request would bring it. What is not spread over columns is returned as it is.

    Raises `InvalidRequest` for a column that is not there.
    """
    if isinstance(value, GivenRow):
        return value.input
    if not isinstance(value, SpreadRow):
        return value
    if "input" in value and "input" not in spec.columns:
        return value["input"]
    if spec.kind == "json":
        return dict(value)
    if spec.kind == "table":
        missing = [name for name, column in spec.columns.items() if name not in value and not column.missing]
        if missing:
            raise InvalidRequest(f"there is no column {missing[0]!r}; there are: {', '.join(map(repr, value))}")
        return {name: _cell(value[name], column) for name, column in spec.columns.items() if name in value}
    if spec.kind in KEYS:
        if missing := [name for name in KEYS[spec.kind] if name not in value]:
            raise InvalidRequest(f"there is no column {missing[0]!r}; there are: {', '.join(map(repr, value))}")
        return {name: value[name] for name in KEYS[spec.kind]}
    raise InvalidRequest(value.complaint)


def _cell(value: Any, column: ColumnConfig) -> Any:
    """Return a cell as its column wants it, where a file of texts cannot say what it is."""
    if column.kind == "text":
        return None if value == "" and column.missing else _as_text(value)
    if value == "":
        return None
    if not isinstance(value, str):
        return _as_text(value) if column.kind == "category" and value is not None else value
    if column.is_number and NUMBER.fullmatch(value.strip()):
        with suppress(ValueError):
            return float(value)
    if column.is_number and value.strip().lower() == "nan":
        return None
    return TRUTHS.get(value.strip().lower(), value) if column.kind in ("boolean", "numeric") else value


def _as_text(value: Any) -> Any:
    """A number that is a name, such as a code in a Parquet file."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
