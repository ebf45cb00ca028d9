"""Which labels are predicted: one of labels that exclude each other, or each that is probable enough."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from demur.policies.cheapest_label import CheapestLabel
from demur.policies.closed_labels import ClosedLabelLimits, ClosedLabels, LimitsRecipe
from demur.policies.label_thresholds import GivenLabelLimit, LabelThresholds, MaxF1LabelLimits
from demur.policies.missed_labels import MissedLabelLimit
from demur.uncertainty.checks import Array, Mask


class Predictor(Protocol):
    """A fitted way from probabilities [n, C] to the labels that are predicted, [n, C]."""

    def of(self, probabilities: Array) -> Mask: ...


class PredictorRecipe(Protocol):
    """The same as it is configured, before it has seen data."""

    def fit(self, probabilities: Any, targets: Any) -> Predictor: ...


@dataclass(frozen=True, kw_only=True)
class MostProbable:
    """One label: the most probable one, the first of those that tie."""

    def of(self, probabilities: Array) -> Mask:
        return np.asarray(probabilities.argmax(axis=1)[:, None] == np.arange(probabilities.shape[1]))

    def fit(self, probabilities: Any, targets: Any) -> "MostProbable":  # noqa: ARG002 - nothing to learn
        return self


LABEL_LIMITS: dict[str, Callable[..., LimitsRecipe]] = {
    "fixed": GivenLabelLimit,
    "max_f1": MaxF1LabelLimits,
    "risk_control": MissedLabelLimit,
}
"""Ways to come by the limits of labels that do not exclude each other."""


def learns(recipe: PredictorRecipe) -> bool:
    """Whether there is something to fit: fitted limits make the rows that they were fitted on look righter."""
    limits = recipe.limits if isinstance(recipe, ClosedLabelLimits) else recipe
    return not isinstance(limits, MostProbable | GivenLabelLimit)


FITTED_PREDICTORS = (MostProbable, LabelThresholds, ClosedLabels, CheapestLabel)
"""What an artifact may hold in the place of a predictor."""
