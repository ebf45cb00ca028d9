"""Rows of a file that somebody prepared: .jsonl, .csv or .parquet."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet

from demur.traffic.file_form import FileForm
from demur.traffic.spreadsheet import from_cell, has_our_cells
from demur.traffic.text_file import NotText, decoded, likely_encoding, read_bytes
from demur.traffic.unique_keys import RepeatedKey, unique_keys

SEPARATORS = (",", ";", "\t")
"""Of the cells of a .csv, as spreadsheets write them; which one, the first line tells."""

csv.field_size_limit(sys.maxsize)  # a picture as nested numbers is longer than the 131,072 characters of the default

ENDINGS = (".jsonl", ".csv", ".parquet")

MOST_LISTED = 30

Row = dict[str, Any]


class BadDataFile(ValueError):
    """A file of rows cannot be read. The message names the file, the row and what is wrong."""


def rows_of(path: Path, form: FileForm | None = None) -> Iterator[tuple[str, Row]]:
    """Yield each row beside where it stands, in words. Raises `BadDataFile`."""
    readers = {".jsonl": _jsonl_file, ".csv": _csv_file, ".parquet": _parquet_file}
    yield from readers[ending_of(path)](path, form or FileForm())


def ending_of(path: Path) -> str:
    """How the name of a file of rows ends. Raises `BadDataFile` where it is none that can be read."""
    if path.suffix.lower() not in ENDINGS:
        raise BadDataFile(f"{path}: the name must end in one of {', '.join(ENDINGS)}")
    return path.suffix.lower()


def no_column(column: str, row: Row, setting: str) -> str:
    """Return what to say of a row without this column. `setting` names another one."""
    there = ", ".join(map(repr, list(row)[:MOST_LISTED])) or "none"
    return f"there is no {column!r}; there are: {there}; name the one that is meant with {setting}"


def _text(path: Path, form: FileForm) -> str:
    content = _bytes(path)
    try:
        return decoded(path, content, form.encoding)
    except NotText as error:
        guess = likely_encoding(content)
        raise BadDataFile(f"{error}, or set {form.setting('encoding')} to {guess}" if guess else str(error)) from None


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except NotText as error:
        raise BadDataFile(str(error)) from None


def _jsonl_file(path: Path, form: FileForm) -> Iterator[tuple[str, Row]]:
    return jsonl_rows(path, io.StringIO(_text(path, form)))


def jsonl_rows(path: Path | str, lines: Iterable[str]) -> Iterator[tuple[str, Row]]:
    """Yield the rows that these lines hold, each beside where it stands. Raises `BadDataFile`."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line, object_pairs_hook=unique_keys)
        except RepeatedKey as error:
            raise BadDataFile(f"{where}: {error}") from None
        except (ValueError, RecursionError) as error:  # ValueError: a number of thousands of digits, too
            why = getattr(error, "msg", "it cannot be read")
            whole = "; a .jsonl has one object on each line, and no list around them" if line.strip() == "[" else ""
            raise BadDataFile(f"{where}: not JSON: {why}{whole}") from None
        if not isinstance(row, dict):
            raise BadDataFile(f"{where}: not an object with 'input' and 'label'")
        yield where, row


def _csv_file(path: Path, form: FileForm) -> Iterator[tuple[str, Row]]:
    text = _text(path, form)
    first = text.lstrip("\r\n").split("\n", 1)[0]
    return csv_rows(path, io.StringIO(text, newline=""), first)


def csv_rows(path: Path | str, lines: Iterable[str], first: str) -> Iterator[tuple[str, Row]]:
    """Yield the rows that these lines hold, each beside where it stands. The `first` line that is not empty tells the
    separator. Raises `BadDataFile`."""
    separator = max(SEPARATORS, key=first.count)  # the one that stands there most often; a comma where none does
    reader = csv.reader(lines, delimiter=separator, strict=True)
    header: list[str] | None = None
    ours = False
    begins = 1
    try:
        for cells in reader:
            where, begins = f"{path}, line {begins}", reader.line_num + 1
            if not any(cells):
                continue
            if header is None:
                header = _header(where, cells)
                ours = has_our_cells(header)
            elif len(cells) != len(header):
                raise BadDataFile(
                    f"{where}: the header names {len(header)} columns, and here are {len(cells)} cells; put a text with"
                    " a separator or a line break in it in double quotes"
                )
            else:
                yield where, {name: _json_or_text(cell, ours=ours) for name, cell in zip(header, cells, strict=True)}
    except csv.Error as error:
        why = "a double quote is opened and never closed" if "end of data" in str(error) else str(error)
        raise BadDataFile(f"{path}, line {begins}: {why}; write a double quote within a quoted text twice") from None


def _header(where: str, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise BadDataFile(f"{where}: the column {twice[0]!r} is there twice")
    return names


def _json_or_text(text: str, *, ours: bool) -> Any:
    if text.lstrip().startswith(("[", "{")):
        with suppress(ValueError, RecursionError):  # a text may merely start with a bracket
            return json.loads(text)
    return from_cell(text) if ours else text


def _parquet_file(path: Path, _form: FileForm) -> Iterator[tuple[str, Row]]:
    try:
        rows = parquet.read_table(pyarrow.BufferReader(_bytes(path))).to_pylist()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadDataFile(f"{path}: not a Parquet file: {str(error).splitlines()[0]}") from None
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row
