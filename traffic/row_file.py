"""A file of rows that need not fit into memory: read once as a whole, to see that it can be, and then row by row."""

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

import pyarrow
import pyarrow.parquet as parquet

from demur.traffic.file_form import FileForm
from demur.traffic.table_file import BadDataFile, Row, csv_rows, ending_of, jsonl_rows
from demur.traffic.text_file import NotText, begin_of, likely_encoding, named_encoding, why_no_text

PIECE = 2**20
LONGEST_ROW = 64 * 2**20
"""Characters."""

AT_ONCE = 256
"""Rows of a Parquet file that are in memory at a time."""


@dataclass(frozen=True, kw_only=True)
class RowFile:
    """A file that was read as a whole and found good."""

    path: Path
    sha256: str
    encoding: str | None
    """None for Parquet."""

    count: int
    """How many rows it has."""

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield each row beside where it stands, in words. Raises `BadDataFile`."""
        if self.encoding is None:
            yield from _parquet_rows(self.path)
            return
        with self._opened() as file:
            if ending_of(self.path) == ".jsonl":
                yield from jsonl_rows(self.path, _Lines(self.path, file))
                return
            first = next((line for line in _Lines(self.path, file) if line.strip("\r\n")), "")
        with self._opened() as file:
            lines = _Lines(self.path, file)
            for where, row in csv_rows(self.path, lines, first):
                lines.characters = 0
                yield where, row

    def _opened(self) -> TextIO:
        file = self.path.open(encoding=self.encoding, newline="" if ending_of(self.path) == ".csv" else "\n")
        if file.read(1) != "\ufeff":
            file.seek(0)
        return file


def open_rows(path: Path, form: FileForm | None = None) -> RowFile:
    """Read a .jsonl, .csv or .parquet file once, row by row, and return it where every row can be read. Raises
    `BadDataFile`."""
    is_text = ending_of(path) != ".parquet"
    chosen = form or FileForm()
    try:
        begin = begin_of(path)
        encoding = named_encoding(path, begin, chosen.encoding) if is_text else None
        digest = _digest(path, encoding, chosen)
    except NotText as error:
        raise BadDataFile(str(error)) from None
    except OSError as error:
        raise BadDataFile(f"{path} cannot be read ({error.strerror or error})") from None
    file = RowFile(path=path, sha256=digest, encoding=encoding, count=0)
    return replace(file, count=sum(1 for _ in file.rows()))


def _digest(path: Path, encoding: str | None, form: FileForm) -> str:
    """The SHA-256 of a file, all of which can be decoded."""
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
    lines = 0
    with path.open("rb") as file:
        while True:
            piece = file.read(PIECE)
            digest.update(piece)
            if decoder is not None:
                try:
                    text = decoder.decode(piece, final=not piece)
                    if "\0" in text:
                        raise UnicodeDecodeError(encoding or "", piece, piece.index(0), 0, "")
                    lines += text.count("\n")
                except UnicodeDecodeError as error:
                    guess = likely_encoding(error.object)
                    why = why_no_text(path, error.object, error.start, encoding or "", lines_before=lines)
                    raise NotText(f"{why}, or set {form.setting('encoding')} to {guess}" if guess else why) from None
            if not piece:
                return digest.hexdigest()


class _Lines:
    """The lines of a file, none of which, and no row of which, is longer than memory should hold."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path = path
        self._file = file
        self._number = 0
        self.characters = 0
        """Since the last row ended, where rows may have several lines."""

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(LONGEST_ROW + 1):
            self._number += 1
            self.characters = self.characters + len(line) if self._is_csv else len(line)
            if self.characters > LONGEST_ROW:
                raise BadDataFile(
                    f"{self._path}, line {self._number}: the row has more than {LONGEST_ROW:,} characters"
                    + ("; is a double quote opened and never closed?" if self._is_csv else "")
                )
            yield line

    @property
    def _is_csv(self) -> bool:
        return ending_of(self._path) == ".csv"


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadDataFile(f"{path}: not a Parquet file: {why}") from None
