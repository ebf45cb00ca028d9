"""Which columns of a file hold the inputs that are sent to a service, and what a model elsewhere said of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from demur.client.errors import DemurError, InvalidRequest
from demur.client.items import Item
from demur.traffic.file_form import LABEL_COLUMNS
from demur.traffic.table_file import Row, ending_of, no_column

INPUT = "input"
BESIDE = ("group", "cluster", "label", "labels")
"""Columns that are no part of an input which is spread over columns."""

ANY = "*"
"""At the end of a name: all columns that begin so, each for the label that follows."""

WHOLE = ("output", "probabilities", "logits")
"""Columns that mostly hold what a model said."""

NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")
"""Not one with zeros before it, or with more digits than a float holds: that is rather a code."""

TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What the columns of a file of inputs are called."""

    inputs: tuple[str, ...] = ()
    """One holds the input; several are an object together."""

    spread: bool = False
    """Whether all columns are an object together, but those that are something else."""

    outputs: tuple[str, ...] = ()
    """What a model elsewhere said: an object, or the parts of one. None: the service asks its own model."""

    group: str = "group"
    cluster: str = "cluster"
    cells: bool = False
    """Whether the file holds nothing but texts, so that a number is known by its look."""

    def of(self, path: Path, first: Row) -> "Columns":
        """The columns of a file with this first row. Where nobody names the inputs, they are in the column `input`, or
        else in all columns, unless a model elsewhere has said something of them already."""
        columns = replace(self, cells=ending_of(path) == ".csv")
        if self.inputs:
            return columns
        return replace(columns, inputs=(INPUT,)) if INPUT in first else replace(columns, spread=not self.outputs)

    def named(self) -> dict[str, Any]:
        """All of them, for the settings of a run."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    def spread_over(self, row: Row) -> list[str]:
        """The columns of a row that are its input together."""
        return [name for name in row if name not in {*BESIDE, self.group, self.cluster}]

    def item(self, where: str, row: Row) -> Item | DemurError:
        """What is sent of a row, or why nothing can be."""
        for names, option in ((self.inputs, "--input-column"), (self.outputs, "--output-column")):
            if missing := [name for name in names if name not in row and not begun_with(name, row)]:
                return InvalidRequest(f"{where}: {no_column(missing[0], row, option)}")
        return Item(
            input=self._input(row),
            output=self._output(row) if self.outputs else None,
            group=word_of(row.get(self.group)),
            cluster=word_of(row.get(self.cluster)),
        )

    def _input(self, row: Row) -> Any:
        if len(self.inputs) == 1:
            return row[self.inputs[0]]
        if self.spread:
            return self._object(row, self.spread_over(row))
        return self._object(row, self.inputs) if self.inputs else None

    def _output(self, row: Row) -> Any:
        if len(self.outputs) == 1 and isinstance(row.get(self.outputs[0]), Mapping):
            return row[self.outputs[0]]
        alone = [name for name in self.outputs if name in row]
        return self._object(row, alone) | {
            part_of(name): {column.removeprefix(name[:-1]): value_of(row[column]) for column in begun_with(name, row)}
            for name in self.outputs
            if name not in row
        }

    def _object(self, row: Row, names: Sequence[str]) -> dict[str, Any]:
        return {name: value_of(row[name]) if self.cells else row[name] for name in names}


def begun_with(name: str, row: Row) -> list[str]:
    """The columns of labels that a name with a star stands for: `p_billing` and the others, where it is `p_*`."""
    return [column for column in row if name[-1:] == ANY and column.startswith(name[:-1]) and column != name[:-1]]


def part_of(name: str) -> str:
    """What columns of labels hold, by the name that stands for them."""
    return "logits" if name.removesuffix(ANY) in LABEL_COLUMNS["logits"] else "probabilities"


def likely_outputs(first: Row) -> str:
    """The option that sends what a model elsewhere seems to have said; empty where no column looks like that."""
    wide = [f"{prefix}{ANY}" for some in LABEL_COLUMNS.values() for prefix in some]
    for name in (*WHOLE, *wide):
        if name in first or len(begun_with(name, first)) > 1:
            return f"--output-column '{name}'"
    return ""


def value_of(cell: Any) -> Any:
    """A cell of a .csv as what it looks like: a number, true or false, nothing, or a text."""
    if not isinstance(cell, str):
        return cell
    if not cell:
        return None
    if cell.lower() in TRUTHS:
        return TRUTHS[cell.lower()]
    if not NUMBER.fullmatch(cell):
        return cell
    return float(cell) if set(cell) & set(".eE") else int(cell)


def word_of(value: Any) -> str | None:
    """The text in a column; None where it is empty."""
    return None if value in (None, "") else str(value)
