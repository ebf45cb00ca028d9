"""Labels that stand in a file, one on each line: for tasks with more of them than a configuration should hold."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from unicodedata import is_normalized, normalize

MOST_LABELS = 20_000_000
LONGEST_LABEL = 200
"""Characters, as for a label in a request."""

STEERING = frozenset(map(chr, (*range(32), *range(127, 160), 0x2028, 0x2029)))
"""Characters that steer a terminal or end a line. A request cannot bring most of them in a label."""


class BadLabelFile(ValueError):
    """A file of labels cannot be used. The message says which line, and why."""


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Labels in their order. Two tables are the same labels if their `sha256` is the same."""

    names: tuple[str, ...]
    sha256: str
    """Of the labels in their order. Titles are only shown, so they are not part of it."""

    titles: tuple[str, ...] = ()
    """What people read beside each label, empty where there is nothing; none at all where no label has a title."""

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Where each label stands."""
        return {label: position for position, label in enumerate(self.names)}

    def titles_of(self, labels: Iterable[str]) -> dict[str, str]:
        """Return the titles of those of these labels that have one."""
        if not self.titles:
            return {}
        places = {label: self.index.get(label) for label in labels}
        return {label: self.titles[at] for label, at in places.items() if at is not None and self.titles[at]}


def read_labels(path: Path) -> LabelTable:
    """Return the labels of a file: UTF-8, one on each line, without empty lines; behind a tab there may be a title.
    It is read once in each process, and again when it has changed. Raises `BadLabelFile`."""
    try:
        stat = path.stat()
    except OSError as error:
        raise BadLabelFile(f"there is no file of labels {path}: {error.strerror or error}") from None
    return _read(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, _changed: int, _size: int) -> LabelTable:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise BadLabelFile(
            f"{path} is not text in UTF-8: {error.reason} at byte {error.start:,}; save it as UTF-8"
        ) from None
    except OSError as error:
        raise BadLabelFile(f"{path} cannot be read: {error.strerror or error}") from None
    if lines and not lines[-1]:
        lines.pop()
    if not 2 <= len(lines) <= MOST_LABELS:
        raise BadLabelFile(f"{path} has {len(lines):,} lines; a file of labels has 2 to {MOST_LABELS:,}")
    names: list[str] = []
    titles: list[str] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        name, _, title = line.removesuffix("\r").partition("\t")
        title = title.strip()
        if not _is_plain(name) or (title and not _is_plain(title)):
            raise BadLabelFile(
                f"{path}, line {number:,}: a label, and its title behind a tab, have 1 to {LONGEST_LABEL} characters"
                " each, and none that steer a terminal or end a line"
            )
        same = name if is_normalized("NFC", name) else normalize("NFC", name)
        if (first := seen.setdefault(same, number)) != number:
            alike = "is there twice" if names[first - 1] == name else f"looks the same as line {first:,}"
            raise BadLabelFile(f"{path}, line {number:,}: {name!r} {alike}; keep one of them")
        names.append(name)
        titles.append(title)
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
    return LabelTable(tuple(names), digest, tuple(titles) if any(titles) else ())


def _is_plain(text: str) -> bool:
    return 0 < len(text) <= LONGEST_LABEL and not text.isspace() and (text.isprintable() or not STEERING & set(text))
