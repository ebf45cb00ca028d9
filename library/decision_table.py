"""What was decided about rows, as columns: shown in notebooks, handed to pandas, read row by row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.library import html
from demur.library.class_labels import ClassLabels
from demur.policies.judgement import Judgement
from demur.uncertainty.checks import Array, Mask

SHOWN = 20
"""Rows that a notebook shows."""

LONGEST_SET = 10
"""Labels of a set that are shown in a cell."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DecisionTable:
    """One row for each input, in their order.

    `prediction` is what the model would say, also where it is held: only `answered` rows may be relied on. In a
    multilabel task a prediction is a tuple of labels. Nothing is predicted, and no confidence known, where the model
    gave no numbers.
    """

    judgement: Judgement
    """The selector's own words."""

    labels: ClassLabels

    def __len__(self) -> int:
        return len(self.judgement)

    @cached_property
    def answered(self) -> Mask:
        """[n], True where the answer may be relied on."""
        return self.judgement.decisions.answered

    @cached_property
    def action(self) -> NDArray[np.object_]:
        """[n]: `answer`, `review` or `abstain`."""
        return _column([action.value for action in self.judgement.decisions.actions])

    @cached_property
    def reason(self) -> NDArray[np.object_]:
        """[n], why, in words."""
        return _column(self.judgement.decisions.reasons)

    @cached_property
    def prediction(self) -> NDArray[np.object_]:
        """[n]: a class each, with the type that it has in `y`; None where nothing was predicted."""
        named = self._named(self.judgement.predicted)
        usable = self.judgement.usable.tolist()
        if not self.labels.exclusive:
            return _column([names if yes else None for names, yes in zip(named, usable, strict=True)])
        return _column([names[0] if yes else None for names, yes in zip(named, usable, strict=True)])

    @property
    def confidence(self) -> Array:
        """[n], the calibrated probability of being right; NaN where it is unknown."""
        return self.judgement.confidence

    @cached_property
    def sets(self) -> NDArray[np.object_]:
        """[n], a tuple each: the classes that are not ruled out. Without prediction sets, what is predicted."""
        return _column(self._named(self.judgement.members))

    @property
    def scores(self) -> dict[str, Array]:
        """[n] for each score, higher when the model is less sure."""
        return self.judgement.scores

    @property
    def coverage(self) -> float:
        """Share of the rows that are answered."""
        return float(self.answered.mean())

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Everything about one row."""
        return {name: column[row] for name, column in self._columns.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[row] for row in range(len(self)))

    def to_pandas(self) -> Any:
        """Return a DataFrame, with a column `score_…` for each score. It needs pandas."""
        try:
            from pandas import DataFrame
        except ImportError:
            raise ImportError("a DataFrame needs pandas; install it, or read the columns of this table") from None
        scores = {f"score_{name}": values for name, values in self.scores.items()}
        return DataFrame({**self._columns, **scores})

    def __repr__(self) -> str:
        return f"<DecisionTable: {self._summary}>"

    def _repr_html_(self) -> str:
        rows = [
            (row, one["action"], one["prediction"], _number(one["confidence"]), _in_cell(one["set"]), one["reason"])
            for row, one in enumerate(self._first(SHOWN))
        ]
        more = [f"and {len(self) - SHOWN:,} more rows"] if len(self) > SHOWN else []
        columns = ("", "action", "prediction", "confidence", "set", "reason")
        return html.table(self._summary, columns, rows) + html.paragraphs(more)

    def _first(self, n: int) -> "DecisionTable":
        return DecisionTable(judgement=self.judgement.rows(np.arange(len(self)) < n), labels=self.labels)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        return {
            "action": self.action,
            "reason": self.reason,
            "prediction": self.prediction,
            "confidence": self.confidence,
            "set": self.sets,
        }

    @property
    def _summary(self) -> str:
        counts = Counter(self.action.tolist())
        return f"{len(self):,} rows: {', '.join(f'{n:,} {action}' for action, n in counts.most_common())}"

    def _named(self, members: Mask) -> list[tuple[Any, ...]]:
        classes = self.labels.classes.tolist()
        chosen: list[list[Any]] = [[] for _ in range(len(members))]
        for row, at in zip(*(found.tolist() for found in np.nonzero(members)), strict=True):
            chosen[row].append(classes[at])
        return [tuple(one) for one in chosen]


def _column(values: Sequence[Any]) -> NDArray[np.object_]:
    """[n], of objects, also where these are tuples of one length, of which NumPy would make a table."""
    column = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        column[at] = value
    return column


def _in_cell(members: Sequence[Any]) -> str:
    more = f" and {len(members) - LONGEST_SET} more" if len(members) > LONGEST_SET else ""
    return ", ".join(map(str, members[:LONGEST_SET])) + more


def _number(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.3f}"
