"""The columns of a model: what its own file says of them, and what is configured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from demur.library.nearest import did_you_mean
from demur.serve.config.hosts.tabular import TableHost
from demur.serve.config.input import MOST_COLUMNS, ColumnConfig
from demur.serve.contract.inputs import Cell, InputSpec, TableRow, example_of
from demur.serve.hosts.kind import BadModel

MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class OwnColumns:
    """What a model's own file says about the columns that it takes, in its own order."""

    columns: Mapping[str, ColumnConfig]
    are_named: bool
    """Whether the file has names of its own. Else those here only number the columns."""

    examples: Mapping[str, Cell] = field(default_factory=dict)
    """Values that the model knows, of columns where not any will do."""

    blank: str = " "
    """What stands in the names of the file for a blank."""

    closed: bool = False
    """Whether the model can do nothing with a category that the file does not list."""


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns in which rows come, and how the model wants them."""

    spec: InputSpec
    """The columns in the order in which a row names them."""

    order: Sequence[int]
    """For each column of the model, in its own order, its place in `spec`."""

    example: TableRow
    """A row without meaning that the model takes."""

    @property
    def configs(self) -> list[ColumnConfig]:
        """The columns in the order of the model."""
        listed = list(self.spec.columns.values())
        return [listed[at] for at in self.order]


def columns_of(host: TableHost, own: OwnColumns | None) -> TableColumns:
    """Return the configured columns, held against those of the file; else those of the file. Raises `BadModel`."""
    configured = {} if host.input is None else host.input.columns
    if own is None:
        if not configured:
            raise BadModel(
                "host.input: the file does not say which columns the model takes; write `input: {kind: table, columns:"
                " {age: number, job: [clerk, nurse]}}`, in the order in which the model was trained on them"
            )
        own = OwnColumns(columns=configured, are_named=True)
    if len(own.columns) > MOST_COLUMNS:
        raise BadModel(f"host.file: the model takes {len(own.columns):,} columns; at most {MOST_COLUMNS:,} are served")
    if not configured:
        told = None if host.input is None else host.input.missing
        configured = {
            name: column if told is None else column.model_copy(update={"missing": told})
            for name, column in own.columns.items()
        }
    elif own.are_named:
        configured = {name: _closed(column, own, name) for name, column in configured.items()}
        _check_names({name.replace(" ", own.blank): column for name, column in configured.items()}, own.columns)
    elif len(configured) != len(own.columns):
        raise BadModel(
            f"host.input.columns: the model takes {len(own.columns):,} columns, and {len(configured):,} are named here"
        )
    places = {name.replace(" ", own.blank): at for at, name in enumerate(configured)}
    order = [places[name] for name in own.columns] if own.are_named else list(range(len(configured)))
    spec = InputSpec(kind="table", columns=configured)
    return TableColumns(spec=spec, order=order, example=_example(spec, own, order))


def _closed(column: ColumnConfig, own: OwnColumns, name: str) -> ColumnConfig:
    """Return a configured column with the categories of the file, where it names none and any other is of no use."""
    known = own.columns.get(name.replace(" ", own.blank))
    if column.kind != "category" or column.values or not own.closed or known is None or not known.values:
        return column
    return column.model_copy(update={"values": known.values})


def _check_names(configured: Mapping[str, ColumnConfig], own: Mapping[str, ColumnConfig]) -> None:
    if unknown := [name for name in configured if name not in own]:
        raise BadModel(
            f"host.input.columns.{unknown[0]}: the model has no column {unknown[0]!r}; it takes {_listed(own)}"
            f"{did_you_mean(unknown[0], own)}"
        )
    if lacking := [name for name in own if name not in configured]:
        raise BadModel(f"host.input.columns: the model also takes {_listed(lacking)}; name each column here, or none")


def _example(spec: InputSpec, own: OwnColumns, order: Sequence[int]) -> TableRow:
    row = example_of(spec)
    assert isinstance(row, TableRow)
    cells = list(row.cells)
    for at, name in zip(order, own.columns, strict=True):
        if name in own.examples:
            cells[at] = own.examples[name]
    return TableRow(tuple(cells))


def _listed(names: Sequence[str] | Mapping[str, ColumnConfig]) -> str:
    listed = list(names)
    more = f" and {len(listed) - MOST_NAMED:,} more" if len(listed) > MOST_NAMED else ""
    return ", ".join(listed[:MOST_NAMED]) + more
