"""A file of rows that need not fit into memory: read once as a whole, to see that it can be, and then row by row."""

import codecs
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TextIO

from demur.traffic.file_form import FileForm
from demur.traffic.parquet_file import plain_rows, why_no_parquet
from demur.traffic.table_file import HEAD, BadDataFile, Row, csv_rows, ending_of, jsonl_rows
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
    count: int
    """How many rows it has."""

    form: FileForm

    def rows(self) -> Iterator[tuple[str, Row]]:
        """Yield each row beside where it stands, in words. Raises `BadDataFile`."""
        return stream_rows(self.path, lambda: self.path.open("rb"), self.form)


def open_rows(path: Path, form: FileForm | None = None) -> RowFile:
    """Read a .jsonl, .csv or .parquet file once, row by row, and return it where every row can be read. Raises
    `BadDataFile`."""
    is_text = ending_of(path) != ".parquet"
    chosen = form or FileForm()
    try:
        begin = begin_of(path)
        digest = _digest(path, named_encoding(path, begin, chosen.encoding) if is_text else None, chosen)
    except NotText as error:
        raise BadDataFile(str(error)) from None
    except OSError as error:
        raise BadDataFile(f"{path} cannot be read ({error.strerror or error})") from None
    file = RowFile(path=path, sha256=digest, count=0, form=chosen)
    return replace(file, count=sum(1 for _ in file.rows()))


def stream_rows(path: Path, opened: Callable[[], BinaryIO], form: FileForm) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a file, each beside where it stands. `path` says what kind of file it is; `opened` opens it.
    Raises `BadDataFile`."""
    ending = ending_of(path)
    if ending == ".parquet":
        with opened() as file:
            yield from _parquet_rows(path, file)
        return
    with opened() as file:
        try:
            encoding = named_encoding(path, file.read(4096), form.encoding)
        except NotText as error:
            raise BadDataFile(str(error)) from None
    try:
        if ending == ".jsonl":
            with _text(opened(), encoding, newline="\n") as text:
                yield from jsonl_rows(path, _Lines(path, text))
            return
        with _text(opened(), encoding, newline="") as text:
            first = next((line for line in _Lines(path, text) if line.strip("\r\n")), "")
        with _text(opened(), encoding, newline="") as text:
            lines = _Lines(path, text, whole_rows=False)
            for where, row in csv_rows(path, lines, first):
                lines.characters = 0
                yield where, row
    except UnicodeDecodeError as error:
        raise BadDataFile(f"{path} is no text in {encoding.upper()}: byte 0x{error.object[error.start]:02x}") from None


@contextmanager
def _text(file: BinaryIO, encoding: str, *, newline: str) -> Iterator[Iterator[str]]:
    """The lines of a file, without the mark that may stand before them."""
    with io.TextIOWrapper(file, encoding=encoding, newline=newline) as text:
        yield _without_mark(text)


def _without_mark(text: TextIO) -> Iterator[str]:
    first = text.readline(LONGEST_ROW + 1)
    yield first.removeprefix("\ufeff")
    while line := text.readline(LONGEST_ROW + 1):
        yield line


class _Lines:
    """Lines, none of which, and no row of which, is longer than memory should hold."""

    def __init__(self, path: Path, lines: Iterator[str], *, whole_rows: bool = True) -> None:
        self._path = path
        self._lines = lines
        self._whole_rows = whole_rows
        self.characters = 0
        """Since the last row ended, where a row may have several lines."""

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=1):
            self.characters = len(line) if self._whole_rows else self.characters + len(line)
            if self.characters > LONGEST_ROW:
                why = "" if self._whole_rows else "; is a double quote opened and never closed?"
                raise BadDataFile(f"{self._path}, line {number}: the row has more than {LONGEST_ROW:,} characters{why}")
            yield line


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


def _parquet_rows(path: Path, opened: BinaryIO) -> Iterator[tuple[str, Row]]:
    import pyarrow  # here, because it is large, and most files are no Parquet
    import pyarrow.parquet as parquet

    number = 0
    try:
        with parquet.ParquetFile(opened) as file:
            for batch in file.iter_batches(batch_size=AT_ONCE):
                for row in plain_rows(batch):
                    number += 1
                    yield f"{path}, row {number}", row
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise BadDataFile(why_no_parquet(path, *_ends(opened), error)) from None


def _ends(opened: BinaryIO) -> tuple[bytes, bytes]:
    """The first and the last bytes of a file that is open."""
    opened.seek(0)
    begin = opened.read(HEAD)
    opened.seek(0, io.SEEK_END)
    opened.seek(max(0, opened.tell() - HEAD))
    return begin, opened.read(HEAD)
