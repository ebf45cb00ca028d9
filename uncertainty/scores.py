"""The scores that can be configured, each with what it needs from the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from demur.uncertainty import class_probability
from demur.uncertainty.checks import Array
from demur.uncertainty.deep_knn import DeepKnn, NeighbourDistance
from demur.uncertainty.given_scores import GivenScore
from demur.uncertainty.isolation_forest import IsolationForest, IsolationTrees
from demur.uncertainty.label_probability import BinaryEntropy
from demur.uncertainty.local_outlier_factor import LocalOutlierFactor, OutlierFactor
from demur.uncertainty.logit_scores import Energy, max_logit
from demur.uncertainty.mahalanobis import Mahalanobis, MahalanobisDistance, RelativeDistance, RelativeMahalanobis
from demur.uncertainty.output import LabelledOutput, Link, Need, Output
from demur.uncertainty.sampled_scores import SAMPLED_SCORES, OverSamples, SampledScore
from demur.uncertainty.stated_scores import STATED_SCORES, StatedScore
from demur.uncertainty.token_scores import TOKEN_SCORES, SpanScore
from demur.uncertainty.trace_scores import TRACE_SCORES, TraceCount, TraceScore, TraceTokens


class Score(Protocol):
    """A fitted score: a batch in, [n] out, higher when the model is less sure; NaN where it lacks what it needs."""

    @property
    def needs(self) -> frozenset[Need]: ...

    def of(self, output: Output) -> Array: ...


class ScoreRecipe(Protocol):
    """A score as it is configured, before it has seen data."""

    @property
    def needs(self) -> frozenset[Need]: ...

    def fit(self, rows: LabelledOutput, quality: Array) -> Score:
        """Fit on labelled rows, whose predictions were right to the degree of `quality` [n]."""
        ...


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A score that has nothing to fit: a function of one part of the output."""

    name: str

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({FORMULAS[self.name][1]})

    def fit(self, rows: LabelledOutput, quality: Array) -> "Formula":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        function, part = FORMULAS[self.name]
        return function(output.needed(part))


FORMULAS: dict[str, tuple[Callable[[Any], Array], Need]] = {
    "softmax_response": (class_probability.softmax_response, "probabilities"),
    "entropy": (class_probability.entropy, "probabilities"),
    "margin": (class_probability.margin, "probabilities"),
    "sampled_max_probability": (class_probability.sampled_max_probability, "mc_probabilities"),
    "mc_entropy": (class_probability.mc_entropy, "mc_probabilities"),
    "probability_variance": (class_probability.probability_variance, "mc_probabilities"),
    "bald": (class_probability.bald, "mc_probabilities"),
    "max_logit": (max_logit, "logits"),
}

REPLY_SCORES: dict[str, Callable[..., ScoreRecipe]] = {
    **TOKEN_SCORES,
    **SAMPLED_SCORES,
    **STATED_SCORES,
    **TRACE_SCORES,
}
"""Those that only a language model has."""

SCORES: dict[str, Callable[..., ScoreRecipe]] = {
    **{name: (lambda name=name: Formula(name=name)) for name in FORMULAS},
    "energy": Energy,
    "binary_entropy": BinaryEntropy,
    "mahalanobis": Mahalanobis,
    "relative_mahalanobis": RelativeMahalanobis,
    "local_outlier_factor": LocalOutlierFactor,
    "isolation_forest": IsolationForest,
    "deep_knn": DeepKnn,
    **REPLY_SCORES,
}

ONLY_FOR: dict[str, Link] = {
    **dict.fromkeys((*FORMULAS, "energy"), "softmax"),  # one of the labels is right
    "binary_entropy": "sigmoid",
    "relative_mahalanobis": "softmax",  # with a single class it is 0 for every input
}
"""Scores that only make sense where labels exclude each other (softmax), or only where they do not (sigmoid)."""

WITHOUT_FIT = (
    *(Formula, Energy, BinaryEntropy, GivenScore),
    *(SpanScore, SampledScore, OverSamples, StatedScore, TraceCount, TraceTokens),
)

FITTED_SCORES = (
    *(Formula, Energy, BinaryEntropy, GivenScore),
    *(MahalanobisDistance, RelativeDistance, OutlierFactor, IsolationTrees, NeighbourDistance),
    *TOKEN_SCORES.values(),
    *SAMPLED_SCORES.values(),
    OverSamples,
    *STATED_SCORES.values(),
    *(kind for name, kind in TRACE_SCORES.items() if name != "trace"),
    TraceScore,
)
"""What an artifact may hold in the place of a score."""


def learns(recipe: ScoreRecipe) -> bool:
    """Whether there is something to fit: a fitted score finds the rows it was fitted on less strange than others."""
    return not isinstance(recipe, WITHOUT_FIT)
