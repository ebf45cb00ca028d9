"""The tokens of many answers in one array, and the formulas of `demur.uncertainty.tokens` over all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array

ROUNDING = 1e-6
"""How far above 0 a log-probability may lie by rounding."""


@dataclass(frozen=True, kw_only=True)
class TokenSpans:
    """The T tokens of m answers, one answer after the other, none of them empty."""

    neg_logprobs: Array
    """[T], at least 0, or NaN: then whatever is made of that answer is NaN."""

    starts: NDArray[np.intp]
    """[m], where each answer begins."""

    lengths: NDArray[np.intp]
    """[m]."""

    @classmethod
    def of(cls, logprobs: Sequence[Array]) -> "TokenSpans":
        """Join the log-probabilities of m answers, at least one. What can be none is NaN."""
        values = np.concatenate(logprobs)
        known = np.isfinite(values) & (values <= ROUNDING)
        lengths, starts = spread(logprobs)
        # abs, because -0.0 is no score to print
        return cls(neg_logprobs=np.where(known, np.abs(np.minimum(values, 0)), np.nan), starts=starts, lengths=lengths)

    @cached_property
    def totals(self) -> Array:
        """[m]"""
        with np.errstate(over="ignore"):
            return np.add.reduceat(self.neg_logprobs, self.starts)

    @cached_property
    def means(self) -> Array:
        """[m]"""
        shares = self.neg_logprobs / np.repeat(self.lengths, self.lengths)
        return np.add.reduceat(shares, self.starts)  # divided first, so that the sum cannot overflow


def spread(answers: Sequence[Sequence[object] | Array]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How long each is [m], and where each begins [m], once they are joined."""
    lengths = np.array([len(one) for one in answers], dtype=np.intp)
    return lengths, np.cumsum(lengths) - lengths


def avg_neg_logprobs(spans: TokenSpans) -> Array:
    """[m], see `tokens.avg_neg_logprob`."""
    return spans.means


def max_neg_logprobs(spans: TokenSpans) -> Array:
    """[m], see `tokens.max_neg_logprob`."""
    return np.maximum.reduceat(spans.neg_logprobs, spans.starts)


def perplexities(spans: TokenSpans) -> Array:
    """[m], see `tokens.perplexity`."""
    with np.errstate(over="ignore"):
        return np.exp(spans.means)


def improbabilities(spans: TokenSpans) -> Array:
    """[m], see `tokens.improbability`."""
    return -np.expm1(-spans.totals)


def greedy_neg_loglikelihoods(spans: TokenSpans) -> Array:
    """[m], see `tokens.greedy_neg_loglikelihood`."""
    return spans.totals


def avg_token_probs(spans: TokenSpans) -> Array:
    """[m], see `tokens.avg_token_prob`."""
    return np.add.reduceat(-np.expm1(-spans.neg_logprobs), spans.starts) / spans.lengths


def sequence_improbabilities(spans: TokenSpans) -> Array:
    """[m], 1 - `tokens.sequence_confidence`."""
    return 1 - np.exp(-spans.means)
