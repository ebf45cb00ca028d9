"""Scores that compare sampled replies to one input, as they are configured. Nothing is fitted.

Each is [n] float64, higher when less sure, and NaN where there are no samples, or none that could be read. They depend
on how often each reading came, and not on the order.
"""

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from demur.uncertainty import class_probability, options
from demur.uncertainty.checks import Array, InvalidInput, one_of
from demur.uncertainty.consistency import eigv_laplacian_jaccard
from demur.uncertainty.generation import Replies
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.readings import named_in, per_row, predicted_in

Unparsed = Literal["outcome", "drop"]
"""What samples that could not be read are: together one more outcome, or left out."""


def same_text(reading: Hashable | None) -> Hashable | None:
    """Return a reading so that texts are equal which differ in case, blanks and the stop at the end alone."""
    if not isinstance(reading, str):
        return reading
    return re.sub(r"\s+", " ", reading).strip().rstrip(".").rstrip().casefold()


@dataclass(frozen=True, kw_only=True)
class SampledScore:
    """A formula over the samples of a row."""

    needs: ClassVar[frozenset[Need]] = frozenset({"samples"})

    def fit(self, rows: LabelledOutput, quality: Array) -> Self:  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return per_row(output, lambda replies, _: self.of_samples(replies))

    def of_samples(self, replies: Replies) -> float:
        """Raises `InvalidInput` where there are none."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class MinorityShare(SampledScore):
    """`self_consistency` (TOUR 4.1), in [0, 1]: the share of samples that are not on the side of the majority.

    Of two labels; in [0, 1/2] where every sample could be read. One that could not speaks for neither.
    """

    def of_samples(self, replies: Replies) -> float:
        votes = [sum(said == label for said in replies.samples) for label in (0, 1)]
        if not sum(votes):
            raise InvalidInput("no sample could be read")
        return (len(replies.samples) - max(votes)) / len(replies.samples)


@dataclass(frozen=True, kw_only=True)
class SpreadOfMeanings(SampledScore):
    """`semantic_entropy` (GAP 4.1), in nats: entropy over the options of the row or, where anything can be said, over
    the texts or sets of labels that were."""

    unparsed: Unparsed = "outcome"
    normalized: bool = False
    """Divide by the logarithm of the number of outcomes, which are as many as there are samples where anything can be
    said: in [0, 1]."""

    def __post_init__(self) -> None:
        one_of("unparsed", self.unparsed, ("outcome", "drop"))

    def of_samples(self, replies: Replies) -> float:
        closed = replies.options is not None and not any(isinstance(said, tuple) for said in set(replies.samples))
        samples = replies.samples if closed else tuple(map(same_text, replies.samples))
        distinct = replies.options if closed else tuple({said: None for said in samples if said is not None})
        found = options.semantic_entropy(samples, distinct, unparsed=self.unparsed)
        if not self.normalized:
            return found.entropy
        if closed:
            return found.normalized
        counted = len(samples) - (found.n_unparsed if self.unparsed == "drop" else 0)
        return min(1.0, found.entropy / float(np.log(counted))) if counted > 1 else 0.0


@dataclass(frozen=True, kw_only=True)
class SampleDisagreement(SampledScore):
    """`sample_disagreement` (GAP appendix G), in [0, 1]: the share of samples that do not say what was predicted: the
    most probable label, the labels that were read from the first reply, or its text."""

    def of(self, output: Output) -> Array:
        return per_row(output, lambda replies, row: self._of_row(replies, output.probabilities[row]))

    def _of_row(self, replies: Replies, probabilities: Array) -> float:
        if replies.said is None or not replies.samples:
            raise InvalidInput("there is nothing to compare")
        predicted = same_text(predicted_in(replies, probabilities))
        others = sum(times for said, times in Counter(replies.samples).items() if same_text(said) != predicted)
        return others / len(replies.samples)


UNREAD = ("a sample that could not be read",)


@dataclass(frozen=True, kw_only=True)
class EigvLaplacian(SampledScore):
    """`eigv_laplacian` (MADE A.4; Lin et al. 2024), in [1, M] for M samples: the effective number of different sets of
    labels among them. Of labels that do not exclude each other."""

    unparsed: Unparsed = "outcome"

    def __post_init__(self) -> None:
        one_of("unparsed", self.unparsed, ("outcome", "drop"))

    def of_samples(self, replies: Replies) -> float:
        read = [tuple(named_in(said)) for said in replies.samples if said is not None]
        if not read:
            raise InvalidInput("no sample could be read")
        unread = len(replies.samples) - len(read) if self.unparsed == "outcome" else 0
        return eigv_laplacian_jaccard([*read, *[UNREAD] * unread])


@dataclass(frozen=True, kw_only=True)
class OverSamples:
    """A score of repeated passes, taken over sampled replies: each is a pass that gives its label all of the
    probability. Those that could not be read are left out."""

    name: str

    needs: ClassVar[frozenset[Need]] = frozenset({"samples"})

    def fit(self, rows: LabelledOutput, quality: Array) -> "OverSamples":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        n_labels = output.probabilities.shape[1]
        return per_row(output, lambda replies, _: self._of_row(replies, n_labels))

    def _of_row(self, replies: Replies, n_labels: int) -> float:
        labels = [label for said in replies.samples for label in named_in(said)]
        if not labels:
            raise InvalidInput("no sample could be read")
        passes = np.asarray(np.array(labels)[:, None] == np.arange(n_labels), dtype=np.float64)
        return float(OF_PASSES[self.name](passes[None])[0])


OF_PASSES = {
    "sampled_max_probability": class_probability.sampled_max_probability,
    "mc_entropy": class_probability.mc_entropy,
    "probability_variance": class_probability.probability_variance,
    "bald": class_probability.bald,
}

SAMPLED_SCORES: dict[str, type[SampledScore]] = {
    "self_consistency": MinorityShare,
    "semantic_entropy": SpreadOfMeanings,
    "sample_disagreement": SampleDisagreement,
    "eigv_laplacian": EigvLaplacian,
}
