"""Which labels are predicted: one of labels that exclude each other, or each that is probable enough."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from demur.policies.cheapest_label import CheapestLabel
from demur.policies.closed_labels import ClosedLabelLimits, ClosedLabels, LimitsRecipe
from demur.policies.label_thresholds import GivenLabelLimit, LabelThresholds, MaxF1LabelLimits
from demur.policies.missed_labels import MissedLabelLimit
from demur.policies.one_label_limit import CommonLabelLimit, OneLabelLimit
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, Mask


class Predictor(Protocol):
    """A fitted way from probabilities [n, C] to the labels that are predicted, [n, C]."""

    @property
    def promise(self) -> Promise | None:
        """What is promised of the predicted labels; None for most."""
        ...

    def of(self, probabilities: Array) -> Mask: ...


class PredictorRecipe(Protocol):
    """A way to predict labels as it is configured, before it has seen data."""

    @property
    def alpha(self) -> float | None:
        """The share of labels that may be missed; None where nothing is promised."""
        ...

    def fit(self, probabilities: Any, targets: Any) -> Predictor: ...


@dataclass(frozen=True, kw_only=True)
class MostProbable:
    """One label: the most probable one, the first of those that tie."""

    promise: ClassVar[Promise | None] = None
    alpha: ClassVar[float | None] = None

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
    limits = recipe.limits if isinstance(recipe, ClosedLabelLimits | OneLabelLimit) else recipe
    return not isinstance(limits, MostProbable | GivenLabelLimit)


def missed_label_limit(recipe: PredictorRecipe) -> MissedLabelLimit | None:
    """The limits that promise a share of labels, if it is these."""
    limits = recipe.limits if isinstance(recipe, ClosedLabelLimits | OneLabelLimit) else recipe
    return limits if isinstance(limits, MissedLabelLimit) else None


FITTED_PREDICTORS = (MostProbable, LabelThresholds, CommonLabelLimit, ClosedLabels, CheapestLabel)
"""What an artifact may hold in the place of a predictor."""
