"""Rows of a table as scikit-learn takes them: a data frame of pandas, or an array."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.serve.config.input import ColumnConfig
from demur.serve.contract.inputs import Cell, TableRow
from demur.serve.hosts.tabular.columns import TableColumns

RowReader = Callable[[Sequence[TableRow]], Any]


def reader_of(columns: TableColumns, names: Sequence[str] | None, with_none: Collection[str]) -> RowReader:
    """Return what makes of rows what a model takes: a data frame with these columns; without names an array [n, d],
    of numbers where all columns are.

    A number is a float64, NaN where it is missing; true and false a bool, or a float64 where one may be missing; a text
    an object, NaN where it is missing, or None in the columns of `with_none`.
    """
    configs, order = columns.configs, columns.order
    known = list(columns.spec.columns)
    gone = [None if known[at] in with_none else np.nan for at in order]
    if names is None and all(config.is_numeric for config in configs):
        return lambda rows: numbers_of(rows, order)
    if names is None:

        def cells_of(row: TableRow) -> list[Cell]:
            return [gone[place] if row.cells[at] is None else row.cells[at] for place, at in enumerate(order)]

        return lambda rows: np.array([cells_of(row) for row in rows], dtype=object)
    import pandas as pd

    def frame(rows: Sequence[TableRow]) -> pd.DataFrame:
        cells = list(zip(*(row.cells for row in rows), strict=True))
        made = {
            name: pd.Series(_column(cells[at], config, absent), copy=False, dtype=_dtype(config))
            for name, at, config, absent in zip(names, order, configs, gone, strict=True)
        }
        return pd.DataFrame(made, copy=False)

    return frame


def numbers_of(rows: Sequence[TableRow], order: Sequence[int]) -> NDArray[np.float64]:
    """Return rows of numbers as an array [n, d], the columns in this order, NaN for what is missing."""
    values = np.array([row.cells for row in rows], dtype=np.float64)
    return values if list(order) == list(range(values.shape[1])) else values[:, list(order)]


def _dtype(config: ColumnConfig) -> str:
    if config.kind == "boolean" and not config.missing:
        return "bool"
    return "float64" if config.is_numeric else "object"


def _column(cells: Sequence[Cell], config: ColumnConfig, absent: Any) -> NDArray[Any]:
    if config.is_numeric:
        values = np.array(cells, dtype=np.float64)
        return values != 0 if config.kind == "boolean" and not config.missing else values
    column = np.empty(len(cells), dtype=object)
    column[:] = [absent if cell is None else cell for cell in cells] if config.missing else cells
    return column
