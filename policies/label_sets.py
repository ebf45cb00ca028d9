"""The prediction sets that can be configured: labels that cannot be ruled out at a chosen error."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from policies.adaptive_sets import AdaptiveSets, CumulativeSets
from policies.class_conditional_sets import ClassConditionalSets, ClassLimitSets
from policies.conformal import LabelSets, SplitSets
from policies.regularised_sets import RegularisedSets
from uncertainty.checks import Array, Mask


class PredictionSets(Protocol):
    """Fitted sets."""

    @property
    def keep_predicted(self) -> bool: ...

    @property
    def promise(self) -> str:
        """At what error labels are ruled out, to follow words like `cannot be ruled out`."""
        ...

    def of(self, probabilities: Array) -> Mask: ...


class PredictionSetsRecipe(Protocol):
    """Sets as they are configured, before they have seen data."""

    def fit(self, probabilities: Any, classes: Any) -> PredictionSets: ...


SETS: dict[str, Callable[..., PredictionSetsRecipe]] = {
    "split": SplitSets,
    "adaptive": AdaptiveSets,
    "regularised": RegularisedSets,
    "class_conditional": ClassConditionalSets,
}

FITTED_SETS = (LabelSets, CumulativeSets, ClassLimitSets)
"""What an artifact may hold in the place of sets."""


def shown(sets: PredictionSets, members: Mask, predicted: Mask) -> Mask:
    """Return the labels [n, C] to be shown, of those that are not ruled out and those that are predicted.

    A rule must not go by these: a set that is empty because nothing fits would look like one that is sure.
    """
    return np.asarray(members | predicted) if sets.keep_predicted else members
