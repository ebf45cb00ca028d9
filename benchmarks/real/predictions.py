"""What a reader hands over: stored predictions of one model, whose right answers are known."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import LabelledOutput, Output

Index = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions:
    """`n` rows of one model. Rows of one group are never parted by a split."""

    model: str
    rows: LabelledOutput
    groups: Index
    """[n]"""

    folds: Index | None = None
    """[n], where the source trained one model for each fold."""

    refusals: tuple[int, ...] = ()
    """Columns that mean "I don't know" or "none of the above", and are never right."""

    left_out: int = 0
    """Rows of the file that are not among the `n`."""

    def __len__(self) -> int:
        return len(self.groups)

    def only(self, here: Mask) -> "Predictions":
        return replace(
            self,
            rows=self.rows.rows(here),
            groups=self.groups[here],
            folds=None if self.folds is None else self.folds[here],
        )

    def answered(self) -> "Predictions":
        """The rows whose most probable option is no refusal: the others abstain by themselves."""
        return self.only(~np.isin(self.rows.output.probabilities.argmax(axis=1), self.refusals))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set: where it comes from, and what its reader does to it."""

    name: str
    folder: str
    files: tuple[str, ...]
    origin: str
    licence: str
    group: str
    """What the rows of one group share."""

    treatment: str
    read: Callable[[Path], list[Predictions]]
    """From the folder of this data set."""

    def is_in(self, data: Path) -> bool:
        return all((data / self.folder / file).is_file() for file in self.files)


def numbered(names: Any) -> Index:
    """Number the distinct `names` [n] (or rows [n, m]) from 0."""
    axis = 0 if np.ndim(names) > 1 else None
    return np.asarray(np.unique(np.asarray(names), axis=axis, return_inverse=True)[1], dtype=np.intp).ravel()


def normalised(values: Any) -> Array:
    """Rows of stored probabilities divided by their sums, which rounding had moved away from 1."""
    rows = np.asarray(values, dtype=np.float64)
    return np.asarray(rows / rows.sum(axis=-1, keepdims=True))


def one_label(probabilities: Array, classes: Index, *, mc_probabilities: Array | None = None) -> LabelledOutput:
    """Rows with one right label each. ln p stands for the logits, which differ from it by a constant for each row."""
    output = Output(logits=np.log(probabilities), probabilities=probabilities, mc_probabilities=mc_probabilities)
    return LabelledOutput.of_classes(output, classes)


def many_labels(probabilities: Array, truth: Mask) -> LabelledOutput:
    """Rows whose labels each hold or not."""
    output = Output(logits=logit(probabilities), probabilities=probabilities)
    return LabelledOutput(output=output, truth=truth, exclusive=False)
