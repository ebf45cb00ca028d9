"""Whether the columns can be what they are taken for: that of the right labels, by its values and by the classes of the
model, and those of numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demur.library.nearest import did_you_mean
from demur.serve.commands.starting.labelled_sample import LabelledSample
from demur.serve.config.file import BadConfig

SHOWN = 5
"""Labels that a message names."""

LONGEST = 60
"""Characters of a cell that are shown."""

MANY = 20
"""So many labels are no reason for doubt, however few rows there are."""

SHORTEST_WORD = 3
"""Letters. Single ones may differ in case alone: a model that reads letters tells them apart."""


def doubts(sample: LabelledSample) -> Iterator[str]:
    """Yield what somebody should look at before the labels are believed."""
    column, labels = sample.label_column, sample.labels
    if len(labels) > max(MANY, sample.rows // 2) or (labels and all(map(_is_measured, labels))):
        yield (
            f"whether the column {column!r} has the right labels: it has {len(labels):,} different values in"
            f" {sample.rows:,} rows, such as {_some(labels)}; --label-column names another"
        )
    if pair := _alike(labels):
        yield (
            f"whether {pair[0]!r} and {pair[1]!r} in the column {column!r} are one label: they differ in capitals or"
            " spaces alone; write them alike"
        )
    for name, odd in sample.odd_cells.items():
        row, cell = odd[0]
        more = f", and {len(odd) - 1:,} more" if len(odd) > 1 else ""
        yield (
            f"the column {name!r}, in which nearly all values are numbers: row {row} has {str(cell)[:LONGEST]!r}{more};"
            " mend these cells, or leave the rows out"
        )


def as_named(sample: LabelledSample, classes: Sequence[str], source: str) -> Mapping[str, str]:
    """Return what the rows call each class of a model, where they differ in capitals alone; empty where all labels of
    the rows are classes, or where nobody knows which is which.

    Raises `BadConfig` where the column cannot be the right one: it has more values than there are classes, or another
    column has the classes.
    """
    there = sample.labels
    if set(there) <= set(classes):
        return {}
    plain = {one.strip().casefold(): one for one in classes}
    meant = {plain.get(one.strip().casefold(), ""): one for one in there}
    if "" not in meant and len(meant) == len(there) and len(plain) == len(classes):
        return {one: meant.get(one, one) for one in classes}
    right = _columns_with(sample.columns, classes)
    if len(there) <= len(classes) and not right:
        return {}
    unknown = next(one for one in there if one not in classes)
    way_out = f"say --label-column {right[0]}" if right else "mend the labels, or name the right column: --label-column"
    raise BadConfig(
        f"{sample.path}: the column {sample.label_column!r} has {len(there):,} different values, such as {unknown!r},"
        f" and {source} tells {len(classes):,} classes apart: {_some(classes)};"
        f" {way_out}{did_you_mean(unknown, classes)}"
    )


def _columns_with(columns: Mapping[str, Any], classes: Sequence[str]) -> list[str]:
    """Names of columns in which nothing but classes stands, and more than one."""
    values = {name: told["values"] for name, told in columns.items() if isinstance(told, dict) and "values" in told}
    return [name for name, found in values.items() if len(found) > 1 and set(found) <= set(classes)]


def _alike(labels: Sequence[str]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for label in labels:
        plain = " ".join(label.casefold().split())
        if len(plain) >= SHORTEST_WORD and plain in seen:
            return seen[plain], label
        seen[plain] = label
    return None


def _is_measured(label: str) -> bool:
    """Whether a label is a number that counts nothing, such as a price or a probability."""
    try:
        return not float(label).is_integer()
    except (ValueError, OverflowError):
        return False


def _some(labels: Sequence[str]) -> str:
    return f"{', '.join(map(repr, labels[:SHOWN]))}{', ...' if len(labels) > SHOWN else ''}"
