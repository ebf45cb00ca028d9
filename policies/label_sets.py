"""The prediction sets that can be configured: labels that cannot be ruled out at a chosen error."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from demur.policies.adaptive_sets import AdaptiveSets, CumulativeSets
from demur.policies.class_conditional_sets import ClassConditionalSets, ClassLimitSets
from demur.policies.conformal import LabelSets, SplitSets
from demur.policies.group_conditional_sets import GroupConditionalSets, GroupLimitSets
from demur.policies.missed_label_sets import LabelsAbove, MissedLabelSets
from demur.policies.promise import Promise
from demur.policies.regularised_sets import RegularisedSets
from demur.policies.sampled_sets import FrequencySets, SampleFrequencySets
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import Need, Output
from demur.uncertainty.readings import on_offer, shares


class PredictionSets(Protocol):
    """Fitted sets."""

    @property
    def keep_predicted(self) -> bool: ...

    @property
    def promise_in_words(self) -> str:
        """At what error labels are ruled out, to follow words like `cannot be ruled out`."""
        ...

    @property
    def promise(self) -> Promise: ...

    def of(self, seen: Array, groups: Sequence[str | None] | None = None) -> Mask:
        """[n, C], from what the sets read, and the group of each row."""
        ...


class PredictionSetsRecipe(Protocol):
    """Sets as they are configured, before they have seen data."""

    @property
    def alpha(self) -> float:
        """The error that they promise."""
        ...

    def fit(self, seen: Any, right: Any, groups: Sequence[str | None] | None = None) -> PredictionSets:
        """`right` is the index of the right label [n] or, where labels do not exclude each other, which hold [n, C]."""
        ...


SETS: dict[str, Callable[..., PredictionSetsRecipe]] = {
    "split": SplitSets,
    "adaptive": AdaptiveSets,
    "regularised": RegularisedSets,
    "class_conditional": ClassConditionalSets,
    "group_conditional": GroupConditionalSets,
    "sampled": SampleFrequencySets,
}
"""For labels that exclude each other."""

MULTILABEL_SETS: dict[str, Callable[..., PredictionSetsRecipe]] = {"risk_control": MissedLabelSets}
"""For those that do not."""

FITTED_SETS = (LabelSets, CumulativeSets, ClassLimitSets, GroupLimitSets, FrequencySets, LabelsAbove)
"""What an artifact may hold in the place of sets."""


def needs_of_sets(sets: object) -> frozenset[Need]:
    """What a model must hand over for these sets, beside probabilities."""
    if not _reads_frequencies(sets):
        return frozenset()
    return frozenset({"samples"}) if _of_replies(sets) else frozenset({"mc_probabilities"})


def seen_by(sets: object, output: Output) -> Array:
    """What sets read of an output, [n, C]: probabilities, or how often each label was sampled, or was the most probable
    in repeated passes, of which one of zeros names no label. NaN in rows without samples."""
    if not _reads_frequencies(sets):
        return output.probabilities
    if _of_replies(sets):
        return shares(output)
    passes = output.needed("mc_probabilities")
    named = passes.argmax(axis=2)[:, :, None] == np.arange(passes.shape[2])
    return np.asarray((named & passes.any(axis=2, keepdims=True)).mean(axis=1))


def not_ruled_out(sets: PredictionSets, output: Output, groups: Sequence[str | None] | None) -> Mask:
    """[n, C], without labels that were not on offer in the row; all that were, where no sample says anything."""
    seen = seen_by(sets, output)
    members = sets.of(seen, groups)
    if _of_replies(sets):
        members = members | np.isnan(seen).any(axis=1, keepdims=True)
    offered = on_offer(output)
    return members if offered is None else members & offered


def _reads_frequencies(sets: object) -> bool:
    return getattr(sets, "reads", "probabilities") == "frequencies"


def _of_replies(sets: object) -> bool:
    return getattr(sets, "source", "passes") == "samples"


def shown(sets: PredictionSets, members: Mask, predicted: Mask) -> Mask:
    """Return the labels [n, C] to be shown, of those that are not ruled out and those that are predicted.

    A rule must not go by these: a set that is empty because nothing fits would look like one that is sure.
    """
    return np.asarray(members | predicted) if sets.keep_predicted else members
