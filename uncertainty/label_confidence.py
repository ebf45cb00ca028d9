"""Calibrated probabilities for the most probable labels of a row, where labels do not exclude each other."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, Mask, one_of, whole_number
from demur.uncertainty.isotonic import Interpolation
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.top_k import fit_per_label, fit_top_k, top_labels


class LabelCalibratorRecipe(Protocol):
    """A calibrator of labels as it is configured, before it has seen data."""

    @property
    def k(self) -> int:
        """How many labels of a row are calibrated at most."""
        ...

    @property
    def by_label(self) -> bool:
        """Whether labels have maps of their own, so that each column must be one label."""
        ...

    def fit(self, rows: LabelledOutput) -> "FittedLabelCalibrator": ...


class FittedLabelCalibrator(Protocol):
    """A fitted calibrator of the k most probable labels of a row."""

    @property
    def k(self) -> int: ...

    def of(self, probabilities: Array) -> Array:
        """Return [n, k], from `probabilities` [n, L]; in the order of `top_labels`, most probable first."""
        ...


class TopKMaps(Protocol):
    """Fitted maps of the probabilities of a row's most probable labels."""

    def of(self, top: Array, labels: NDArray[np.intp]) -> Array:
        """Return [n, k], calibrated; `labels` [n, k] says whose probabilities `top` [n, k] are."""
        ...


@dataclass(frozen=True, kw_only=True)
class LabelCalibrator:
    """Fitted maps for the k most probable labels of a row."""

    k: int
    maps: "TopKMaps"

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

    @property
    def by_label(self) -> bool:
        return self.mode == "per_label"

    def fit(self, rows: LabelledOutput) -> LabelCalibrator:
        if self.mode == "per_label":
            probabilities = rows.output.probabilities
            k = min(self.k, probabilities.shape[1])
            per_label = fit_per_label(
                probabilities,
                rows.truth,
                k=k,
                least=self.least,
                weights=rows.weights,
                interpolation=self.interpolation,
            )
            return LabelCalibrator(k=k, maps=per_label)
        top, hits = top_pairs(rows, self.k)
        maps = fit_top_k(top, hits, mode=self.mode, weights=rows.weights, interpolation=self.interpolation)
        return LabelCalibrator(k=top.shape[1], maps=maps)


def top_pairs(rows: LabelledOutput, k: int) -> tuple[Array, Mask]:
    """Return the probabilities of the k most probable labels of each row [n, k], and whether each label holds."""
    probabilities = rows.output.probabilities
    labels = top_labels(probabilities, min(k, probabilities.shape[1]))
    return np.take_along_axis(probabilities, labels, axis=1), np.take_along_axis(rows.truth, labels, axis=1)
