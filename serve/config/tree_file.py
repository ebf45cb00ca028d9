"""A label tree as a file: which label lies right above which."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from demur.traffic.text_file import NotText, read_text
from demur.traffic.unique_keys import RepeatedKey, unique_keys

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
        text = read_text(path)
    except NotText as error:
        raise BadTreeFile(f"{error}; write imdrf, or name a .csv or .json file") from None
    return _json(path, text) if path.suffix.lower() == ".json" else _csv(path, text)


def as_parents(mapping: Any) -> dict[str, list[str]]:
    """Return a mapping from child to parent, or to a list of parents, with lists throughout."""
    if not isinstance(mapping, Mapping):
        raise BadTreeFile("write imdrf, the name of a file, or a mapping from a label to its parent or their list")
    parents = {}
    for child, above in mapping.items():
        listed = [] if above is None else above if isinstance(above, list | tuple) else [above]
        if not all(isinstance(label, str) and label for label in (child, *listed)):
            raise BadTreeFile(f"{child!r} has the parents {above!r}; labels are texts, so put them in quotes")
        parents[child] = list(listed)
    return parents


def _json(path: Path, text: str) -> dict[str, list[str]]:
    try:
        content = json.loads(text, object_pairs_hook=unique_keys)
    except RepeatedKey as error:
        raise BadTreeFile(f"{path}: {error}; a label with several parents has a list of them") from None
    except (ValueError, RecursionError) as error:
        raise BadTreeFile(f"{path} is not JSON: {getattr(error, 'msg', 'it cannot be read')}{_place(error)}") from None
    try:
        return as_parents(content)
    except BadTreeFile as error:
        raise BadTreeFile(f"{path}: {error}") from None


def _csv(path: Path, text: str) -> dict[str, list[str]]:
    parents: dict[str, list[str]] = {}
    for number, cells in enumerate(_lines(path, text), start=1):
        if not any(cells) or (number == 1 and [cell.lower() for cell in cells] == HEADER):
            continue
        if len(cells) != 2 or not cells[0]:
            raise BadTreeFile(f"{path}, line {number}: there are 2 columns, a child and its parent; here is {cells}")
        child, parent = cells
        parents.setdefault(child, []).extend([parent] if parent else [])
    return parents


def _lines(path: Path, text: str) -> Iterator[list[str]]:
    reader = csv.reader(text.splitlines())
    try:
        for row in reader:
            yield [cell.strip() for cell in row]
    except csv.Error as error:
        raise BadTreeFile(f"{path}, line {reader.line_num}: {error}") from None


def _place(error: Exception) -> str:
    return f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
