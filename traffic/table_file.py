"""Rows of a file that somebody prepared: .jsonl, .csv or .parquet."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from demur.traffic.file_form import FileForm
from demur.traffic.parquet_file import plain_rows, why_no_parquet
from demur.traffic.spreadsheet import NUMBER, from_cell, has_our_cells
from demur.traffic.text_file import NotText, decoded, likely_encoding, read_bytes
from demur.traffic.unique_keys import RepeatedKey, unique_keys

SEPARATORS = (",", ";", "\t")
"""Of the cells of a .csv, as spreadsheets write them; which one, the first line tells."""

csv.field_size_limit(sys.maxsize)  # a picture as nested numbers is longer than the 131,072 characters of the default

ENDINGS = (".jsonl", ".csv", ".parquet")

HEAD = 4096
"""Bytes by which a file that is something else is known."""

JSON_ENDINGS = (".json", ".ndjson", ".jsonlines")

OTHER_ENDINGS = {
    JSON_ENDINGS: "a file with one JSON object on each line is called .jsonl",
    (".txt", ".tsv", ".tab", ".dat"): "a table with commas, semicolons or tabs is called .csv",
    (".xlsx", ".xls", ".ods"): "save a workbook as CSV (UTF-8)",
    (".gz", ".zip", ".bz2", ".xz", ".zst"): "unpack a compressed file first",
    (".pq", ".feather", ".arrow", ".pkl", ".pickle", ".npy", ".npz"): "write such a table as .parquet",
}
"""What to do about files that people have in the place of these."""

ONE_EACH = "a .jsonl has one object on each line, and no list around them"

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
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        hint = next((f"; {what}" for others, what in OTHER_ENDINGS.items() if ending in others), "")
        raise BadDataFile(f"{path}: the name must end in one of {', '.join(ENDINGS)}{hint}")
    return ending


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
            row = json.loads(line.rstrip(), object_pairs_hook=unique_keys)
        except RepeatedKey as error:
            raise BadDataFile(f"{where}: {error}") from None
        except json.JSONDecodeError as error:
            raise BadDataFile(f"{where}: not JSON: {error.msg} at column {error.colno}; {_instead(line)}") from None
        except (ValueError, RecursionError):  # ValueError: a number of thousands of digits
            raise BadDataFile(f"{where}: not JSON: it cannot be read") from None
        if not isinstance(row, dict):
            raise BadDataFile(f"{where}: not an object; {ONE_EACH}")
        yield where, row


def _instead(line: str) -> str:
    """What to do about a line that is not JSON."""
    begin = line.lstrip()[:1]
    if begin in ("[", "]") or line.strip() in ("{", "}"):
        return ONE_EACH
    return "mend the line, or leave it out" if begin == "{" else f"{ONE_EACH}; a table is called .csv"


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
                pairs = zip(header, cells, strict=True)
                yield where, {name: _json_or_text(cell, ours=ours) for name, cell in pairs if name}
    except csv.Error as error:
        why = "a double quote is opened and never closed" if "end of data" in str(error) else str(error)
        raise BadDataFile(f"{path}, line {begins}: {why}; write a double quote within a quoted text twice") from None


def _header(where: str, cells: list[str]) -> list[str]:
    """The names of the columns. One without a name is left out of all rows: pandas writes their numbers there."""
    names = [cell.strip() for cell in cells]
    if names[0].startswith("{"):
        raise BadDataFile(f"{where}: this is JSON, and no name of a column; {OTHER_ENDINGS[JSON_ENDINGS]}")
    if 2 * sum(_is_measured(name) for name in names) > len(names):
        raise BadDataFile(f"{where}: these are numbers; put a line with the names of the columns before them")
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise BadDataFile(f"{where}: the column {twice[0]!r} is there twice")
    return names


def _is_measured(name: str) -> bool:
    """Whether a name is a number that counts nothing: 0, 1 and 2 may be what columns are called."""
    return NUMBER.fullmatch(name) is not None and not name.isdigit()


def _json_or_text(text: str, *, ours: bool) -> Any:
    if text.lstrip().startswith(("[", "{")):
        with suppress(ValueError, RecursionError):  # a text may merely start with a bracket
            return json.loads(text)
    return from_cell(text) if ours else text


def _parquet_file(path: Path, _form: FileForm) -> Iterator[tuple[str, Row]]:
    import pyarrow  # here, because it is large, and most processes read no Parquet
    import pyarrow.parquet as parquet

    content = _bytes(path)
    try:
        rows = plain_rows(parquet.read_table(pyarrow.BufferReader(content)))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadDataFile(why_no_parquet(path, content[:HEAD], content[-HEAD:], error)) from None
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row
