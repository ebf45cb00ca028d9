"""Calibrated probabilities for the most probable labels of a row, where labels do not exclude each other."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from demur.uncertainty.checks import Array, one_of, whole_number
from demur.uncertainty.isotonic import Interpolation
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.top_k import JointTopK, PerLabel, SeparateTopK, fit_per_label, fit_top_k, top_labels


class LabelCalibratorRecipe(Protocol):
    """A calibrator of labels as it is configured, before it has seen data."""

    def fit(self, rows: LabelledOutput) -> "LabelCalibrator": ...


@dataclass(frozen=True, kw_only=True)
class LabelCalibrator:
    """Fitted maps for the k most probable labels of a row."""

    k: int
    maps: JointTopK | SeparateTopK | PerLabel

    def of(self, probabilities: Array) -> Array:
        """[n, k], from `probabilities` [n, L]; in the order of `top_labels`, most probable first.

        Under a label tree `probabilities` are closed upwards, and what comes back is not closed again: maps of several
        ranks or labels may leave an ancestor a little below a label under it.
        """
        labels = top_labels(probabilities, self.k)
        return self.maps.of(np.take_along_axis(probabilities, labels, axis=1), labels)


@dataclass(frozen=True, kw_only=True)
class TopKIsotonic:
    """`joint`: one map for all ranks. `separate`: a map for each rank. `per_label`: a map for each label that held
    at least `least` times in the fitted data, and the joint one for the others."""

    mode: Literal["joint", "separate", "per_label"] = "joint"
    k: int = 5
    least: int = 30
    interpolation: Interpolation = "linear"

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)
        whole_number("least", self.least, least=1)
        one_of("mode", self.mode, ("joint", "separate", "per_label"))
        one_of("interpolation", self.interpolation, ("linear", "step"))

    def fit(self, rows: LabelledOutput) -> LabelCalibrator:
        probabilities = rows.output.probabilities
        k = min(self.k, probabilities.shape[1])
        if self.mode == "per_label":
            per_label = fit_per_label(
                probabilities,
                rows.truth,
                k=k,
                least=self.least,
                weights=rows.weights,
                interpolation=self.interpolation,
            )
            return LabelCalibrator(k=k, maps=per_label)
        labels = top_labels(probabilities, k)
        top, hits = (np.take_along_axis(values, labels, axis=1) for values in (probabilities, rows.truth))
        maps = fit_top_k(top, hits, mode=self.mode, weights=rows.weights, interpolation=self.interpolation)
        return LabelCalibrator(k=k, maps=maps)


LABEL_CALIBRATORS = {"isotonic": TopKIsotonic}
