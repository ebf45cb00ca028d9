"""Labels that stand in a file, one on each line: for tasks with more of them than a configuration should hold."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

MOST_LABELS = 20_000_000
LONGEST_LABEL = 200
"""Characters, as for a label in a request."""


class BadLabelFile(ValueError):
    """A file of labels cannot be used. The message says which line, and why."""


@dataclass(frozen=True)
class LabelTable:
    """Labels in their order."""

    names: tuple[str, ...]
    sha256: str
    """Of the labels in their order."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Where each label stands."""
        return {label: position for position, label in enumerate(self.names)}


def read_labels(path: Path) -> LabelTable:
    """Return the labels of a file: UTF-8, one on each line, without empty lines. It is read once in each process, and
    again when it has changed. Raises `BadLabelFile`."""
    try:
        stat = path.stat()
    except OSError as error:
        raise BadLabelFile(f"there is no file of labels {path}: {error.strerror or error}") from None
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int, _size: int) -> LabelTable:
    try:
        names = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise BadLabelFile(f"{path} is not text in UTF-8: {error.reason} at byte {error.start:,}") from None
    except OSError as error:
        raise BadLabelFile(f"{path} cannot be read: {error.strerror or error}") from None
    if names and not names[-1]:
        names.pop()
    names = [name.removesuffix("\r") for name in names]
    if not 2 <= len(names) <= MOST_LABELS:
        raise BadLabelFile(f"{path} has {len(names):,} lines; a file of labels has 2 to {MOST_LABELS:,}")
    seen: set[str] = set()
    for number, name in enumerate(names, start=1):
        if not name.strip() or len(name) > LONGEST_LABEL or any(ord(character) < 32 for character in name):
            raise BadLabelFile(
                f"{path}, line {number:,}: a label has 1 to {LONGEST_LABEL} characters, and none that steer a terminal"
            )
        if name in seen:
            raise BadLabelFile(f"{path}, line {number:,}: {name!r} is there twice")
        seen.add(name)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return LabelTable(tuple(names), digest)
