"""Rows of a table, checked against its columns."""

import math
from collections.abc import Mapping
from typing import Any

from demur.library.nearest import one_of
from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import Cell, InputLimits, InputSpec, InvalidRequest, TableRow, TooLarge
from demur.serve.contract.reading.texts import kind_of

MOST_TOLD = 5
"""Mistakes of one row that are told."""

MOST_WHOLE = 2**53 - 1
"""Larger whole numbers that differ by one may be the same as floating point."""


def read_row(value: Any, spec: InputSpec, limits: InputLimits) -> TableRow:
    """Return one row in the order of the columns. It comes as an object with a value for each, or as an array of all.

    Raises `InvalidRequest`, with the column, for what is missing, unknown, of another type or out of range.
    """
    given = _by_name(value, spec.columns)
    cells: list[Cell] = []
    wrong: list[InvalidRequest] = []
    for name, column in spec.columns.items():
        try:
            cells.append(_cell(name, given.get(name), column, limits))
        except TooLarge:
            raise
        except InvalidRequest as error:
            wrong.append(error)
    if wrong:
        raise InvalidRequest("; ".join(map(str, wrong[:MOST_TOLD])) + (" ..." if len(wrong) > MOST_TOLD else ""))
    return TableRow(tuple(cells))


def by_name(value: Any, spec: InputSpec) -> Any:
    """Return a row that was read as an object in the order of the columns, null for what is missing: so it is stored
    and shown. Anything else is returned as it came."""
    if isinstance(value, list) and len(value) == len(spec.columns):
        return dict(zip(spec.columns, value, strict=True))
    return {name: value.get(name) for name in spec.columns} | value if isinstance(value, dict) else value


def _by_name(value: Any, columns: Mapping[str, ColumnConfig]) -> Mapping[str, Any]:
    if isinstance(value, list):
        if len(value) != len(columns):
            raise InvalidRequest(
                f"input: the array has {len(value):,} values, and this model takes {len(columns):,}, in this order:"
                f" {_listed(columns)}"
            )
        return dict(zip(columns, value, strict=True))
    if not isinstance(value, dict):
        raise InvalidRequest(
            f"input: this model takes a row of a table, as an object with these keys or as an array in this order:"
            f" {_listed(columns)}; and not {kind_of(value)}"
        )
    unknown = [name for name in value if name not in columns]
    if unknown:
        raise InvalidRequest(f"input.{unknown[0]}: {one_of(unknown[0], columns)}")
    return value


def _cell(name: str, value: Any, column: ColumnConfig, limits: InputLimits) -> Cell:
    place = f"input.{name}"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        if not column.missing:
            raise InvalidRequest(f"{place}: a value is missing, and this model needs one")
        return None
    if column.is_number:
        truth = column.kind == "numeric" and isinstance(value, bool)
        return _number(place, float(value) if truth else value, column)
    if column.kind == "boolean":
        if not isinstance(value, bool):
            raise InvalidRequest(f"{place}: true or false is wanted here, not {kind_of(value)}")
        return float(value)
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}: a text is wanted here, not {kind_of(value)}")
    if len(value) > limits.text_characters:
        raise TooLarge(
            f"{place}: the text has {len(value):,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    if column.kind == "category" and column.values and value not in column.known:
        if column.unknown == "refuse":
            raise InvalidRequest(f"{place}: {one_of(value, column.values)}")
        return None if column.unknown == "missing" else value
    return value


def _number(place: str, value: Any, column: ColumnConfig) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"{place}: a number is wanted here, not {kind_of(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidRequest(f"{place}: a finite number is wanted here")
    if column.kind == "integer" and (abs(number) > MOST_WHOLE or not number.is_integer()):
        raise InvalidRequest(f"{place}: a whole number of at most {MOST_WHOLE:,} is wanted here")
    if column.min is not None and number < column.min:
        raise InvalidRequest(f"{place}: it is {number:g}; at least {column.min:g} is taken")
    if column.max is not None and number > column.max:
        raise InvalidRequest(f"{place}: it is {number:g}; at most {column.max:g} is taken")
    return number


def _listed(columns: Mapping[str, ColumnConfig]) -> str:
    names = list(columns)
    return ", ".join(names[:20]) + (f" and {len(names) - 20:,} more" if len(names) > 20 else "")
