"""Text files that people prepared: their text, or one sentence on why there is none to be read."""

import codecs
from pathlib import Path

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark begins the same
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""How a file says its encoding in its first bytes."""

OTHER_FILES = {
    b"PK\x03\x04": "an Excel workbook or another zip archive; save the table as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook; save the table as CSV (UTF-8)",
    b"PAR1": "a Parquet file; let its name end in .parquet",
    b"\x1f\x8b": "compressed with gzip; unpack it first",
    b"%PDF": "a PDF document; name a text file",
    b"\x89PNG": "a picture; name a text file",
}
"""What people take for a text file, by its first bytes."""

SHOWN = 30
"""Characters on each side of a byte that cannot be read, so that it can be found again."""


class NotText(ValueError):
    """A file cannot be read as text. The message names the file, the line, the encoding to try and what to do."""


def read_text(path: Path, encoding: str | None = None) -> str:
    """Return the text of a file: in this encoding, else as its first bytes say, else in UTF-8. Raises `NotText`."""
    return decoded(path, read_bytes(path), encoding)


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises `NotText` where there is none."""
    return _content(path)


def begin_of(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file. Raises `NotText` where there is none."""
    return _content(path, size)


def _content(path: Path, size: int = -1) -> bytes:
    if path.is_dir():
        raise NotText(f"{path} is a folder, and a file is wanted")
    try:
        with path.open("rb") as file:
            return file.read(size)
    except FileNotFoundError:
        raise NotText(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a character 0 in it
        raise NotText(f"{path} cannot be read ({getattr(error, 'strerror', None) or error})") from None


def decoded(path: Path, content: bytes, encoding: str | None = None) -> str:
    """Return the text of a file with this content. Raises `NotText`."""
    chosen = named_encoding(path, content, encoding)
    try:
        text = content.decode(chosen)
    except UnicodeDecodeError as error:
        raise NotText(why_no_text(path, content, error.start, chosen)) from None
    if "\0" in text:
        raise NotText(why_no_text(path, content, content.index(0), chosen))
    return text.removeprefix("\ufeff")


def named_encoding(path: Path, begin: bytes, encoding: str | None = None) -> str:
    """Return in which encoding a file with these first bytes is to be read: this one, else the one that they say, else
    UTF-8. Raises `NotText` where it is no text, or there is no such encoding."""
    if other := next((what for begins, what in OTHER_FILES.items() if begin.startswith(begins)), None):
        raise NotText(f"{path} is no text: it is {other}")
    chosen = encoding or next((name for mark, name in MARKS.items() if begin.startswith(mark)), "utf-8")
    try:
        b"a".decode(chosen)
    except LookupError:
        raise NotText(f"{path}: {encoding!r} is no encoding that is known; such are utf-8, cp1252 and utf-16") from None
    except UnicodeDecodeError:  # one letter is two bytes or more there
        pass
    return chosen


def likely_encoding(content: bytes) -> str | None:
    """Return the encoding that a text which is no UTF-8 is probably in; None where it is probably no text at all."""
    head = content[:4096]
    if not head.count(0):
        return _first_that_reads(content, "utf-8", "cp1252", "latin-1")
    if head.count(0) < len(head) / 3:
        return None
    low_byte_first = head[1::2].count(0) > head[::2].count(0)
    return _first_that_reads(content, "utf-16-le" if low_byte_first else "utf-16-be")


def _first_that_reads(content: bytes, *encodings: str) -> str | None:
    for encoding in encodings:
        try:
            if "\0" not in content.decode(encoding):
                return encoding
        except UnicodeDecodeError:
            pass
    return None


def why_no_text(path: Path, content: bytes, at: int, encoding: str, *, lines_before: int = 0) -> str:
    """Return why the byte at this place of a content ends it being a text. `lines_before` come before the content."""
    line = lines_before + content[:at].count(10) + 1
    where = f"{path}, line {line}: byte 0x{content[at]:02x} is no text in {encoding.upper()}"
    guess = likely_encoding(content)
    if guess is None:
        return f"{path} is no text file"
    if guess == encoding:
        return f"{where}; save the file as UTF-8"
    text, place = content.decode(guess), at // (2 if guess.startswith("utf-16") else 1)
    shown = text[max(0, place - SHOWN) : place].split("\n")[-1] + text[place : place + SHOWN].split("\n")[0]
    return f"{where}; it looks like {guess}, which makes of it {shown.strip()!r}: save the file as UTF-8"
