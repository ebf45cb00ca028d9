"""Scores of the tokens of a reply, as they are configured (MADE A.4; GAP 4.1). Nothing is fitted.

Each is [n] float64, higher when less sure, and NaN where the engine told no log-probabilities, or impossible ones. The
reasoning before an answer is left out, unless `per: reply` asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from demur.uncertainty import token_entropy, token_spans
from demur.uncertainty.answers import Answers
from demur.uncertainty.checks import Array, InvalidInput, one_of
from demur.uncertainty.generation import Replies, Span
from demur.uncertainty.label_sets import mean_over_predicted_labels
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.readings import per_first_reply, replies_of
from demur.uncertainty.token_entropy import REDUCE, Residual
from demur.uncertainty.token_spans import TokenSpans, spread
from demur.uncertainty.tokens import alone

Per = Literal["answer", "label", "reply"]


@dataclass(frozen=True, kw_only=True)
class SpanScore:
    """A formula over a span of tokens."""

    per: Per | None = None
    """`answer`: of the whole answer. `label`: of each predicted label's own tokens, and then the mean over the
    predicted labels; NaN where none is predicted (METHODS A5). `reply`: of the answer and the reasoning that led to it.
    By default labels, where several may hold, else the answer."""

    needs: ClassVar[frozenset[Need]] = frozenset({"logprobs"})

    def __post_init__(self) -> None:
        if self.per is not None:
            one_of("per", self.per, ("answer", "label", "reply"))

    def fit(self, rows: LabelledOutput, quality: Array) -> Self:  # noqa: ARG002 - only the kind of task counts
        return replace(self, per=self.per or ("answer" if rows.exclusive else "label"))

    def of(self, output: Output) -> Array:
        if self.per == "label":
            return per_first_reply(output, self._of_labels)
        return self.of_answers(Answers(replies_of(output), whole=True) if self.per == "reply" else output.answers)

    def of_answers(self, answers: Answers) -> Array:
        """The formula over all tokens of each answer, [n]."""
        raise NotImplementedError

    def of_span(self, replies: Replies, span: Span) -> float:
        """The formula over some tokens. Raises `InvalidInput` where they lack something."""
        raise NotImplementedError

    def _of_labels(self, replies: Replies) -> float:
        of_labels = {label: self.of_span(replies, span) for label, span in replies.spans.items()}
        return mean_over_predicted_labels(of_labels, list(of_labels))


@dataclass(frozen=True, kw_only=True)
class LogprobScore(SpanScore):
    """A formula over the log-probabilities of the tokens that were written."""

    @staticmethod
    def formula(spans: TokenSpans) -> Array:
        raise NotImplementedError

    def of_answers(self, answers: Answers) -> Array:
        return answers.of_logprobs(self.formula)

    def of_span(self, replies: Replies, span: Span) -> float:
        logprobs = replies.logprobs(span)
        if logprobs is None:
            raise InvalidInput("the reply has no log-probabilities")
        return float(self.formula(alone(logprobs))[0])


@dataclass(frozen=True, kw_only=True)
class AvgNegLogprob(LogprobScore):
    """`avg_neg_logprob`, in [0, inf)."""

    formula = staticmethod(token_spans.avg_neg_logprobs)


@dataclass(frozen=True, kw_only=True)
class MaxNegLogprob(LogprobScore):
    """`max_neg_logprob`, in [0, inf): of the least probable token."""

    formula = staticmethod(token_spans.max_neg_logprobs)


@dataclass(frozen=True, kw_only=True)
class Perplexity(LogprobScore):
    """`perplexity`, in [1, inf]. It ranks as `avg_neg_logprob`, except among means over several labels."""

    formula = staticmethod(token_spans.perplexities)


@dataclass(frozen=True, kw_only=True)
class Improbability(LogprobScore):
    """`improbability`, in [0, 1]: 1 - probability of all of it."""

    formula = staticmethod(token_spans.improbabilities)


@dataclass(frozen=True, kw_only=True)
class GreedyNegLogLikelihood(LogprobScore):
    """`g_nll`, in [0, inf): not divided by the length."""

    formula = staticmethod(token_spans.greedy_neg_loglikelihoods)


@dataclass(frozen=True, kw_only=True)
class AvgTokenProb(LogprobScore):
    """`avg_token_prob`, in [0, 1]: 1 - mean token probability."""

    formula = staticmethod(token_spans.avg_token_probs)


@dataclass(frozen=True, kw_only=True)
class SequenceConfidence(LogprobScore):
    """`sequence_confidence`, in [0, 1): 1 - geometric mean of the token probabilities, which is the confidence."""

    formula = staticmethod(token_spans.sequence_improbabilities)


@dataclass(frozen=True, kw_only=True)
class TokenEntropy(SpanScore):
    """`token_entropy`, in nats: the entropies of the tokens over the alternatives that were told, as one number."""

    needs: ClassVar[frozenset[Need]] = frozenset({"logprobs", "top_logprobs"})

    residual: Residual = "outcome"
    """What becomes of the mass that the alternatives leave: one more outcome; `renormalize`; or `ignore`."""

    reduce: Literal["sum", "mean", "max"] = "sum"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("residual", self.residual, ("outcome", "renormalize", "ignore"))
        one_of("reduce", self.reduce, list(REDUCE))

    def of_answers(self, answers: Answers) -> Array:
        return answers.of_alternatives(self._of_many)

    def _of_many(self, answers: Sequence[Sequence[Array]]) -> Array:
        """[m], of the alternatives of each token, answer by answer."""
        lengths, starts = spread(answers)
        found = token_entropy.entropies([token for answer in answers for token in answer], self.residual)
        if self.reduce == "max":
            return np.maximum.reduceat(found, starts)
        sums = np.add.reduceat(found, starts)
        return sums if self.reduce == "sum" else sums / lengths

    def of_span(self, replies: Replies, span: Span) -> float:
        alternatives = replies.top_logprobs(span)
        if alternatives is None:
            raise InvalidInput("the reply has no alternatives of its tokens")
        return token_entropy.token_entropy_sequence(alternatives, residual=self.residual, reduce=self.reduce)


TOKEN_SCORES: dict[str, type[SpanScore]] = {
    "avg_neg_logprob": AvgNegLogprob,
    "max_neg_logprob": MaxNegLogprob,
    "perplexity": Perplexity,
    "improbability": Improbability,
    "g_nll": GreedyNegLogLikelihood,
    "avg_token_prob": AvgTokenProb,
    "sequence_confidence": SequenceConfidence,
    "token_entropy": TokenEntropy,
}
