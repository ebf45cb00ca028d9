"""The prediction sets that can be configured: labels that cannot be ruled out at a chosen error."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    ClassLimitSets,
    CumulativeSets,
    FrequencySets,
    GroupConditionalSets,
    GroupLimitSets,
    LabelSets,
    Reads,
    RegularisedSets,
    SampleFrequencySets,
    SplitSets,
)
from demur.policies.missed_label_sets import LabelsAbove, MissedLabelSets
from demur.policies.moved_sets import MovedLabelSets
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import Need, Output
from demur.uncertainty.readings import on_offer, shares


class PredictionSets(Protocol):
    """Fitted sets."""

    @property
    def keep_predicted(self) -> bool: ...

    @property
    def reads(self) -> Reads: ...

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

    @property
    def delta(self) -> float | None:
        """Except with which probability they promise it of one fit; None: on average over fits."""
        ...

    @property
    def reads(self) -> Reads: ...

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

FITTED_SETS = (LabelSets, CumulativeSets, ClassLimitSets, GroupLimitSets, FrequencySets, LabelsAbove, MovedLabelSets)
"""What an artifact may hold in the place of sets."""


class ReadsOutput(Protocol):
    """Sets, fitted or not, that say what they read."""

    @property
    def reads(self) -> Reads: ...


NEEDS: dict[Reads, frozenset[Need]] = {
    "probabilities": frozenset(),
    "passes": frozenset({"mc_probabilities"}),
    "samples": frozenset({"samples"}),
}
"""What a model must hand over, beside probabilities, for sets that read this."""


def needs_of_sets(sets: ReadsOutput | None) -> frozenset[Need]:
    """What a model must hand over for these sets, beside probabilities."""
    if isinstance(sets, MovedLabelSets) and sets.weighting.by == "embedding":
        return NEEDS[sets.reads] | {"embedding"}
    return NEEDS[sets.reads] if sets else frozenset()


def seen_by(sets: ReadsOutput, output: Output) -> Array:
    """What sets read of an output, [n, C]: probabilities, or how often each label was sampled, or was the most probable
    in repeated passes, of which one of zeros names no label. NaN in rows without samples."""
    if sets.reads == "probabilities":
        return output.probabilities
    if sets.reads == "samples":
        return shares(output)
    passes = output.needed("mc_probabilities")
    named = passes.argmax(axis=2)[:, :, None] == np.arange(passes.shape[2])
    return np.asarray((named & passes.any(axis=2, keepdims=True)).mean(axis=1))


def not_ruled_out(sets: PredictionSets, output: Output, groups: Sequence[str | None] | None) -> Mask:
    """[n, C], without labels that were not on offer in the row; all that were, where no sample says anything."""
    seen = seen_by(sets, output)
    members = sets.of_output(output) if isinstance(sets, MovedLabelSets) else sets.of(seen, groups)
    if sets.reads == "samples":
        members = members | np.isnan(seen).any(axis=1, keepdims=True)
    offered = on_offer(output)
    return members if offered is None else members & offered


def shown(sets: PredictionSets, members: Mask, predicted: Mask) -> Mask:
    """Return the labels [n, C] to be shown, of those that are not ruled out and those that are predicted.

    A rule must not go by these: a set that is empty because nothing fits would look like one that is sure.
    """
    return np.asarray(members | predicted) if sets.keep_predicted else members
