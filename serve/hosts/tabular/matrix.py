"""Rows of a table as one array of numbers, categories as the codes that a model knows them by."""

from collections.abc import Mapping, Sequence

import numpy as np

from demur.serve.contract.inputs import TableRow
from demur.serve.hosts.kind import BadModel
from demur.serve.hosts.tabular.columns import TableColumns
from demur.uncertainty.checks import Array

Codes = Mapping[str, float]
"""The code of each category, by its text."""


class RowMatrix:
    """Makes an array [n, d] of n rows, the columns in the order of the model. NaN stands for what is missing."""

    def __init__(self, columns: TableColumns, codes: Mapping[int, Codes]) -> None:
        """`codes` are those of each column of categories, by its place in the model.

        Raises `BadModel` for a column of texts without codes, and for one that takes categories without a code.
        """
        self._order, self._codes = list(columns.order), dict(codes)
        names = list(columns.spec.columns)
        for place, (at, config) in enumerate(zip(self._order, columns.configs, strict=True)):
            where = f"host.input.columns.{names[at]}"
            if config.is_numeric:
                if place in codes:
                    raise BadModel(
                        f"{where}: the model knows this column as a category, of {', '.join(list(codes[place])[:10])},"
                        f" and it is a {config.kind} here; write `{names[at]}: category`"
                    )
                continue
            if config.kind == "text" or (place not in codes and not config.values):
                raise BadModel(
                    f"{where}: the model takes numbers, and this column is a {config.kind}; name its categories in the"
                    " order of their codes, 0 first, or serve a pipeline that encodes it (`host.kind: sklearn`)"
                )
            known = self._codes.setdefault(place, {text: float(code) for code, text in enumerate(config.values)})
            if config.unknown == "keep" or not config.values:
                raise BadModel(
                    f"{where}: the model has no code for a category that it does not know; list `values`, with"
                    " `unknown: refuse` or `unknown: missing`"
                )
            if wrong := [text for text in config.values if text not in known]:
                raise BadModel(
                    f"{where}.values: the model does not know {wrong[0]!r}; it knows {', '.join(list(known)[:10])}"
                )

    def of(self, rows: Sequence[TableRow]) -> Array:
        """Return the array of at least one row."""
        if not self._codes:
            values = np.array([row.cells for row in rows], dtype=np.float64)
            return values if self._order == list(range(values.shape[1])) else values[:, self._order]
        made = np.empty((len(rows), len(self._order)))
        cells = list(zip(*(row.cells for row in rows), strict=True))
        for place, at in enumerate(self._order):
            codes = self._codes.get(place)
            made[:, place] = (
                cells[at] if codes is None else [np.nan if cell is None else codes[str(cell)] for cell in cells[at]]
            )
        return made
