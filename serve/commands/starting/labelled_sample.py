"""What a file of rows shows: its columns, the labels in it, and what of a model's output stands there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from demur.serve.commands.starting.given_rows import (
    FEWEST_LABELS,
    check_labels,
    check_outputs,
    one_label_wanted,
    wide_labels,
)
from demur.serve.config.hosts.given import Part
from demur.serve.contract.reading.spread_rows import NUMBER
from demur.traffic.dataset import BESIDE
from demur.traffic.file_form import LABEL_COLUMNS, FileForm
from demur.traffic.row_file import open_rows
from demur.traffic.table_file import MOST_LISTED, BadDataFile, Row

MOST_LABELS = 1000
"""More labels than that nobody would read in a configuration."""

MOST_CATEGORIES = 20
ROWS_PER_CATEGORY = 5
"""A column of texts holds categories where each occurs about that often; else it holds texts."""

MOST_ODD = 0.05
"""Cells that are no numbers, for each that is one, in a column of numbers."""

PARTS: tuple[str, ...] = get_args(Part)
IN_ORDER = ("probabilities", "logits", "passes")
"""Parts that may be lists, which do not say which label comes first."""

NO_VALUE = (None, "")


@dataclass(frozen=True, kw_only=True)
class LabelledSample:
    """A file of rows, read once."""

    path: Path
    rows: int
    has_labels: bool
    label_column: str
    kind: str
    """Of the task: `binary`, `multiclass` or `multilabel`."""

    labels: tuple[str, ...]
    """In the order of the outputs where the file shows one, else sorted."""

    parts: Mapping[str, int]
    """What the file holds of a model's output, and how many numbers each has, 0 where that says nothing."""

    numbers: tuple[str, ...]
    """Names in a column `scores`."""

    columns: Mapping[str, Any]
    """Of an input that is spread over columns: each with its kind, as `host.input.columns` takes it."""

    odd_cells: Mapping[str, Sequence[tuple[int, Any]]]
    """Cells that are no numbers, each with the number of its row, by columns in which nearly all are."""

    input: Any
    """The first input, where there is such a column; else None."""

    right: float | None
    """Share of the rows in which the most probable label is the right one, in this order of labels."""

    is_told: bool
    """Whether the file itself names the order of the labels, or needs none."""


def read_sample(
    path: Path, *, input_column: str, label_column: str, with_outputs: bool, encoding: str | None = None
) -> LabelledSample:
    """Read a .csv, .jsonl or .parquet file. `with_outputs`: it may hold what a model said. Raises `BadDataFile`."""
    rows = [row for _, row in open_rows(path, FileForm(encoding=encoding, section="")).rows()]
    if not rows:
        raise BadDataFile(f"{path}: there are no rows")
    first = rows[0]
    label_column = "labels" if label_column not in first and "labels" in first else label_column
    if label_column not in ("label", "labels") and label_column not in first:
        there = ", ".join(map(repr, list(first)[:MOST_LISTED]))
        raise BadDataFile(f"{path} has no column {label_column!r}, which --label-column names; there are: {there}")
    if input_column != "input" and input_column not in first:
        there = ", ".join(map(repr, list(first)[:MOST_LISTED]))
        raise BadDataFile(f"{path} has no column {input_column!r}, which --input-column names; there are: {there}")
    truths = [row.get(label_column) for row in rows]
    several = any(isinstance(one, list) for one in truths)
    found = _labels_in(path, truths, label_column)
    kind = "multilabel" if several else ""
    prefix, named = _named_labels(first, rows, found) if with_outputs else ("", [])
    if len(named) == 1 and len(found) == FEWEST_LABELS:  # one of two says the other
        if named[0] not in found:
            raise BadDataFile(one_label_wanted(path, prefix + named[0], label_column, found))
        named = sorted(found, key=lambda label: label == named[0])
    check_labels(path, label_column, named, found, every=bool(prefix))
    labels = tuple(dict.fromkeys([*named, *found]))
    kind = kind or ("binary" if len(labels) == 2 else "multiclass")
    parts = _parts(rows, labels, prefix) if with_outputs else {}
    if with_outputs:
        check_outputs(path, rows, label_column, parts, kind, labels)
    columns = {} if input_column in first else _columns(path, rows, leave_out=(label_column, *BESIDE))
    return LabelledSample(
        path=path,
        rows=len(rows),
        has_labels=any(one not in NO_VALUE for one in truths),
        label_column=label_column,
        kind=kind,
        labels=labels,
        parts=parts,
        numbers=_numbers(rows) if "scores" in parts else (),
        columns=columns,
        odd_cells={name: odd for name in columns if (odd := _odd_cells([row.get(name) for row in rows]))},
        input=first.get(input_column),
        right=None if several else _right(rows, truths, labels),
        is_told=not any(isinstance(_output_of(first).get(part), list) for part in IN_ORDER if part in parts),
    )


def _labels_in(path: Path, truths: Sequence[Any], column: str) -> list[str]:
    """The labels of the column, sorted. A number that stands for a label is sorted by its value."""
    counted = Counter(
        str(one) for truth in truths if truth not in NO_VALUE for one in (truth if isinstance(truth, list) else [truth])
    )
    if len(counted) > MOST_LABELS:
        raise BadDataFile(
            f"{path}: the column {column!r} has {len(counted):,} different values, which are hardly labels of a model;"
            " name the right column with --label-column"
        )
    if all(NUMBER.fullmatch(one) for one in counted):
        return sorted(counted, key=lambda one: (float(one), one))
    return sorted(counted)


def _named_labels(first: Row, rows: Sequence[Row], found: Sequence[str]) -> tuple[str, list[str]]:
    """How the columns of labels begin, where each has one, and the labels that the file names beside the right ones."""
    prefix, labels = wide_labels(first)
    in_one = {"probabilities", "logits"} & set(_output_of(first))
    if labels and not in_one and not (found and all(one in first for one in found)):
        return prefix, labels
    return "", _named(rows)


def _output_of(row: Row) -> Mapping[str, Any]:
    """The columns of a row, and what stands in its column `output`."""
    said = row.get("output")
    return {**row, **said} if isinstance(said, Mapping) else row


def _named(rows: Sequence[Row]) -> list[str]:
    """Labels that probabilities or logits name."""
    names: dict[str, None] = {}
    for row in rows:
        for part in ("probabilities", "logits"):
            said = _output_of(row).get(part)
            if isinstance(said, Mapping):
                names.update(dict.fromkeys(map(str, said)))
    return list(names)[: MOST_LABELS + 1]


def _parts(rows: Sequence[Row], labels: Sequence[str], prefix: str) -> dict[str, int]:
    first = _output_of(rows[0])
    found = {part: _size(first[part]) for part in PARTS if part in first}
    if "reply" in found and isinstance(first["reply"], Mapping) and "logprobs" in first["reply"]:
        found.setdefault("logprobs", 0)
    of_labels = [first.get(prefix + name, first.get(name)) for name in labels]
    there = [one for one in of_labels if one is not None]
    one_of_two = len(labels) == FEWEST_LABELS and prefix not in LABEL_COLUMNS["logits"] and len(there) == 1
    enough = all(map(_is_number, there if one_of_two else of_labels))
    if not {"probabilities", "logits"} & set(found) and of_labels and enough:
        part = "logits" if prefix in LABEL_COLUMNS["logits"] and prefix + labels[0] in first else "probabilities"
        found[part] = len(labels)
    if "candidates" in found:
        found["candidates"] = max(_size(_output_of(row).get("candidates")) for row in rows)
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and bool(NUMBER.fullmatch(value.strip())))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list | Mapping) else 0


def _numbers(rows: Sequence[Row]) -> tuple[str, ...]:
    said = _output_of(rows[0]).get("scores")
    return tuple(map(str, said)) if isinstance(said, Mapping) else ()


def _right(rows: Sequence[Row], truths: Sequence[Any], labels: Sequence[str]) -> float | None:
    """How often the largest of the numbers is that of the right label, where they stand in a list."""
    hits = total = 0
    for row, truth in zip(rows, truths, strict=True):
        output = _output_of(row)
        said = output.get("probabilities", output.get("logits"))
        if not isinstance(said, list) or len(said) != len(labels) or truth in NO_VALUE:
            continue
        if all(isinstance(one, int | float) for one in said):
            total += 1
            hits += labels[said.index(max(said))] == str(truth)
    return hits / total if total else None


def _columns(path: Path, rows: Sequence[Row], leave_out: Sequence[str]) -> dict[str, Any]:
    """The kind of each column, by its values. Raises `BadDataFile`."""
    columns = {name: [row.get(name) for row in rows] for name in rows[0] if name not in leave_out}
    for name, values in columns.items():
        if all(map(_has_decimal_comma, there := [one for one in values if not _is_missing(one)])) and there:
            raise BadDataFile(
                f"{path}: the column {name!r} has numbers with a comma, such as {there[0]}; write them with a point"
            )
    return {name: _column(values) for name, values in columns.items()}


def _has_decimal_comma(value: Any) -> bool:
    return isinstance(value, str) and "," in value and bool(NUMBER.fullmatch(value.strip().replace(",", ".", 1)))


def _column(values: Sequence[Any]) -> Any:
    there = [one for one in values if not _is_missing(one)]
    kind: dict[str, Any] = {"kind": _kind(there)}
    if kind["kind"] == "category":
        kind["values"] = sorted(set(map(str, there)))
    if len(there) < len(values):
        kind["missing"] = True
    return kind["kind"] if list(kind) == ["kind"] else kind


def _is_missing(value: Any) -> bool:
    return value in NO_VALUE or value != value or (isinstance(value, str) and value.strip().lower() == "nan")


def _kind(values: Sequence[Any]) -> str:
    if values and all(isinstance(one, bool) or str(one).strip().lower() in ("true", "false") for one in values):
        return "boolean"
    if all(map(_is_number, values)) or _odd_cells(values):
        return "number"
    different = len(set(map(str, values)))
    few = different <= MOST_CATEGORIES and different * ROWS_PER_CATEGORY <= len(values)
    return "category" if few else "text"


def _odd_cells(values: Sequence[Any]) -> list[tuple[int, Any]]:
    """The cells that are no numbers, each with the number of its row, of a column in which nearly all others are; empty
    where none is odd, or where so many are that the column has texts."""
    odd = [(n, one) for n, one in enumerate(values, start=1) if not _is_missing(one) and not _is_number(one)]
    numbers = sum(map(_is_number, values))
    often = Counter(str(one) for _, one in odd)
    few = len(odd) <= MOST_ODD * numbers and max(often.values(), default=0) < ROWS_PER_CATEGORY
    return odd if few else []
