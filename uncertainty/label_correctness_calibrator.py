"""`label_confidence: correctness`: how probable each label is, from all probabilities of the row."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from demur.uncertainty.checks import Array, whole_number
from demur.uncertainty.label_correctness import LabelCorrectness, LabelCorrectnessRecipe
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.top_k import top_labels


@dataclass(frozen=True, kw_only=True)
class CorrectLabels:
    """The fitted model for the k most probable labels of a row."""

    k: int
    model: LabelCorrectness

    def of(self, probabilities: Array) -> Array:
        """Return [n, k], from `probabilities` [n, L]; in the order of `top_labels`, most probable first."""
        labels = top_labels(probabilities, self.k)
        return np.take_along_axis(self.model.probability(probabilities), labels, axis=1)


@dataclass(frozen=True, kw_only=True)
class TopKCorrectness:
    """The model as it is configured. Labels have columns of their own in it where they occur often enough."""

    by_label: ClassVar[bool] = True

    k: int = 5
    C: float = 1.0
    min_label_events: int = 5
    min_events: int = 10

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)
        _ = self._recipe

    @property
    def _recipe(self) -> LabelCorrectnessRecipe:
        return LabelCorrectnessRecipe(C=self.C, min_label_events=self.min_label_events, min_events=self.min_events)

    def fit(self, rows: LabelledOutput) -> CorrectLabels:
        probabilities = rows.output.probabilities
        model = self._recipe.fit(probabilities, rows.truth, rows.weights)
        return CorrectLabels(k=min(self.k, probabilities.shape[1]), model=model)
