"""Rows of a Parquet file in the values that JSON has, and one sentence on why a file is none."""

from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from demur.traffic.text_file import OTHER_FILES, likely_encoding

if TYPE_CHECKING:
    import pyarrow

MAGIC = b"PAR1"
"""With which a Parquet file begins and ends."""

INDEX_OF_PANDAS = "__index_level_"
"""How a column begins in which pandas keeps the numbers of the rows, which are no part of the data."""


def plain_rows(table: "pyarrow.Table | pyarrow.RecordBatch") -> list[dict[str, Any]]:
    """Return the rows of a table. A time is a text in ISO 8601, and a decimal number a number."""
    index = [name for name in table.schema.names if name.startswith(INDEX_OF_PANDAS)]
    rows: list[dict[str, Any]] = (table.drop_columns(index) if index else table).to_pylist()
    if any(_has_others(column.type) for column in table.schema):
        return [_plain(row) for row in rows]
    return rows


def why_no_parquet(path: Path, begin: bytes, end: bytes, error: Exception) -> str:
    """Return why a file with these first and last bytes cannot be read as Parquet, and what to do."""
    if not begin:
        why = "it is empty"
    elif begin.startswith(MAGIC):
        lines = str(error).splitlines() or [type(error).__name__]
        whole = len(begin) > len(MAGIC) and end.endswith(MAGIC)
        why = lines[0] if whole else "it is cut off; copy it again, or write it anew"
    elif other := next((what for begins, what in OTHER_FILES.items() if begin.startswith(begins)), None):
        why = f"it is {other}"
    elif likely_encoding(begin):
        why = "it is a text; let its name end in .csv, or in .jsonl where each line is an object"
    else:
        why = "it is something else; write the rows as .parquet, .csv or .jsonl"
    return f"{path}: not a Parquet file: {why}"


def _has_others(kind: "pyarrow.DataType") -> bool:
    """Whether values of this type, or in it, may be of a kind that JSON does not have."""
    import pyarrow  # here, because it is large: whoever has a type of it has imported it

    types = pyarrow.types
    if types.is_temporal(kind) or types.is_decimal(kind) or isinstance(kind, pyarrow.ExtensionType):
        return True
    if isinstance(kind, pyarrow.DictionaryType):
        return _has_others(kind.value_type)
    return any(_has_others(kind.field(at).type) for at in range(kind.num_fields))


def _plain(value: Any) -> Any:
    """A value as it is sent over HTTP."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, UUID) else value
