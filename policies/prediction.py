"""Which labels are predicted, and how right that was."""

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from policies.label_thresholds import LabelThresholds, fit_max_f1_limits
from uncertainty.checks import Array, Mask, fraction
from uncertainty.output import LabelledOutput


class Predictor(Protocol):
    """A fitted way from probabilities [n, C] to the labels that are predicted."""

    def of(self, probabilities: Array) -> Mask: ...


class PredictorRecipe(Protocol):
    """The same as it is configured, before it has seen data."""

    def fit(self, rows: LabelledOutput) -> Predictor: ...


@dataclass(frozen=True, kw_only=True)
class MostProbable:
    """One label: the most probable one, the first of those that tie."""

    def of(self, probabilities: Array) -> Mask:
        return np.asarray(probabilities.argmax(axis=1)[:, None] == np.arange(probabilities.shape[1]))

    def fit(self, rows: LabelledOutput) -> "MostProbable":  # noqa: ARG002 - nothing to learn
        return self


@dataclass(frozen=True, kw_only=True)
class GivenLabelThreshold:
    """Every label that is at least this probable."""

    limit: float = 0.5

    def __post_init__(self) -> None:
        fraction("limit", self.limit)

    def fit(self, rows: LabelledOutput) -> LabelThresholds:
        return LabelThresholds(limits=np.full(rows.truth.shape[1], self.limit))


@dataclass(frozen=True, kw_only=True)
class MaxF1Thresholds:
    """Every label that is at least as probable as the limit under which its own F1 is highest (MADE 3.1)."""

    default: float = 0.5
    """The limit of a label that never holds in the fitted data."""

    def __post_init__(self) -> None:
        fraction("default", self.default)

    def fit(self, rows: LabelledOutput) -> LabelThresholds:
        return LabelThresholds(limits=fit_max_f1_limits(rows.output.probabilities, rows.truth, default=self.default))


Right = Literal["exact", "jaccard"]
"""What confidence is a forecast of: that the predicted labels are just the right ones, or their Jaccard similarity."""
