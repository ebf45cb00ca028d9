"""A label tree as a file: which label lies right above which."""

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HEADER = ["child", "parent"]


class BadTreeFile(ValueError):
    """The file does not hold a label tree. The message names the place, and what is wanted there."""


def read_parents(path: Path) -> dict[str, list[str]]:
    """Return the parents of each label that the file names.

    A .json file is a mapping from a label to its parent or to a list of its parents. Any other is a CSV of two columns,
    child and parent, with or without a first line that calls them so; a label with several parents has several lines,
    and one with an empty parent has none above it.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadTreeFile(f"{path} cannot be read ({reason}); write imdrf, or name a .csv or .json file") from None
    return _json(path, text) if path.suffix.lower() == ".json" else _csv(path, text)


def as_parents(name: str, mapping: Any) -> dict[str, list[str]]:
    """Return a mapping from child to parent, or to a list of parents, with lists throughout."""
    if not isinstance(mapping, Mapping):
        raise BadTreeFile(f"{name} is not a mapping from a label to its parent or a list of its parents")
    parents = {}
    for child, above in mapping.items():
        listed = [] if above is None else above if isinstance(above, list | tuple) else [above]
        if not all(isinstance(label, str) and label for label in (child, *listed)):
            raise BadTreeFile(f"{name}: {child!r} has the parents {above!r}; labels are texts, so put them in quotes")
        parents[child] = list(listed)
    return parents


def _json(path: Path, text: str) -> dict[str, list[str]]:
    try:
        return as_parents(str(path), json.loads(text))
    except json.JSONDecodeError as error:
        raise BadTreeFile(f"{path} is not JSON: {error}") from None


def _csv(path: Path, text: str) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for number, cells in enumerate(_lines(text), start=1):
        if not any(cells) or (number == 1 and [cell.lower() for cell in cells] == HEADER):
            continue
        if len(cells) != 2 or not cells[0]:
            raise BadTreeFile(f"{path}, line {number}: there are 2 columns, a child and its parent; here is {cells}")
        child, parent = cells
        parents.setdefault(child, []).extend([parent] if parent else [])
    return parents


def _lines(text: str) -> Iterable[list[str]]:
    return ([cell.strip() for cell in row] for row in csv.reader(text.splitlines()))
