"""Scores of how a model reasons before it answers, as they are configured (GAP 5.2, appendix D).

[n] float64, higher when less sure; NaN where the model wrote no trace.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, one_of
from demur.uncertainty.feature_scores import (
    FeatureLogistic,
    FeatureLogisticScore,
    FeatureRidge,
    FeatureRidgeScore,
    FeatureSum,
    FeatureSumScore,
)
from demur.uncertainty.generation import Replies
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.readings import per_first_reply
from demur.uncertainty.trace import TraceFeatures, trace_features

Count = Literal["tokens", "words"]
"""What the length of a trace is counted in. Tokens must be told by the engine; they are never taken for words."""


def _needs(count: Count) -> frozenset[Need]:
    return frozenset({"reply"}) if count == "words" else frozenset({"reply", "logprobs"})


def _features(replies: Replies, count: Count) -> TraceFeatures:
    if replies.first.reasoning is None:
        raise InvalidInput("the model wrote no trace")
    n_tokens = None if count == "words" else replies.first.reasoning_tokens
    if count == "tokens" and n_tokens is None:
        raise InvalidInput("the engine told no tokens")
    return trace_features(replies.first.reasoning, n_tokens)


@dataclass(frozen=True, kw_only=True)
class TraceCount:
    """One feature by itself; there is nothing to fit."""

    feature: ClassVar[Literal["tokens", "questions", "waits"]]

    needs: ClassVar[frozenset[Need]] = frozenset({"reply"})

    def fit(self, rows: LabelledOutput, quality: Array) -> Self:  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return per_first_reply(output, lambda replies: float(getattr(_features(replies, "words"), self.feature)))


@dataclass(frozen=True, kw_only=True)
class TraceQuestions(TraceCount):
    """`trace_questions`: runs of question marks."""

    feature = "questions"


@dataclass(frozen=True, kw_only=True)
class TraceWaits(TraceCount):
    """`trace_waits`: how often the word "wait" stands there."""

    feature = "waits"


@dataclass(frozen=True, kw_only=True)
class TraceTokens:
    """`trace_tokens`: how long the trace is."""

    count: Count = "tokens"

    def __post_init__(self) -> None:
        one_of("count", self.count, ("tokens", "words"))

    @property
    def needs(self) -> frozenset[Need]:
        return _needs(self.count)

    def fit(self, rows: LabelledOutput, quality: Array) -> "TraceTokens":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return per_first_reply(output, lambda replies: float(_features(replies, self.count).tokens))


@dataclass(frozen=True, kw_only=True)
class TraceScore:
    """`trace`, fitted: tokens, questions and waits as one number."""

    fitted: FeatureSumScore | FeatureLogisticScore | FeatureRidgeScore
    count: Count = "tokens"

    @property
    def needs(self) -> frozenset[Need]:
        return _needs(self.count)

    def of(self, output: Output) -> Array:
        rows = feature_rows(output, self.count)
        values = np.full(len(rows), np.nan)
        known = ~np.isnan(rows[:, 0])
        if known.any():
            values[known] = self.fitted.uncertainty(rows[known])
        return values


@dataclass(frozen=True, kw_only=True)
class Trace:
    """`trace` as it is configured: `linear_sum`, in [0, 3], learns the range of each feature; `logistic` and `ridge`,
    in [0, 1], learn from predictions that were right or wrong."""

    method: Literal["linear_sum", "logistic", "ridge"] = "linear_sum"
    C: float = 1.0
    """`logistic`: the penalty is ||w||^2 / (2C)."""

    alpha: float = 1.0
    """`ridge`: the penalty is alpha ||w||^2."""

    count: Count = "tokens"

    def __post_init__(self) -> None:
        one_of("method", self.method, ("linear_sum", "logistic", "ridge"))
        one_of("count", self.count, ("tokens", "words"))
        _ = self._model

    @property
    def needs(self) -> frozenset[Need]:
        return _needs(self.count)

    @property
    def learns_from_right(self) -> bool:
        """Whether it must be told which predictions were right."""
        return self.method != "linear_sum"

    def fit(self, rows: LabelledOutput, quality: Array) -> TraceScore:
        """Fit on the rows that have a trace."""
        features = feature_rows(rows.output, self.count)
        known = ~np.isnan(features[:, 0])
        if not known.any():
            raise InvalidInput(f"none of {len(rows)} replies has a trace with {self.count} to count; leave out `trace`")
        return TraceScore(fitted=self._model.fit(features[known], quality[known]), count=self.count)

    @property
    def _model(self) -> FeatureSum | FeatureLogistic | FeatureRidge:
        if self.method == "linear_sum":
            return FeatureSum()
        return FeatureLogistic(C=self.C) if self.method == "logistic" else FeatureRidge(alpha=self.alpha)


def feature_rows(output: Output, count: Count) -> Array:
    """[n, 3]: tokens, questions, waits; NaN where there is no trace."""

    def column(feature: str) -> Array:
        return per_first_reply(output, lambda replies: float(getattr(_features(replies, count), feature)))

    return np.stack([column(feature) for feature in ("tokens", "questions", "waits")], axis=1)


TRACE_SCORES: dict[str, type[TraceCount | TraceTokens | Trace]] = {
    "trace_tokens": TraceTokens,
    "trace_questions": TraceQuestions,
    "trace_waits": TraceWaits,
    "trace": Trace,
}
