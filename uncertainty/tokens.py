"""Scores of one generated answer from the log-probabilities of its tokens (MADE A.4; GAP 4.1).

`logprobs` are natural logarithms, one per token of the answer span; a reasoning trace before it is left out. APIs
round: a value in (0, 1e-6] is read as 0. Results are higher when the model is less sure, but for the one confidence.
"""

from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite
from demur.uncertainty.token_spans import (
    ROUNDING,
    TokenSpans,
    avg_neg_logprobs,
    avg_token_probs,
    greedy_neg_loglikelihoods,
    improbabilities,
    max_neg_logprobs,
    perplexities,
)


def at_most_zero(name: str, values: Array) -> Array:
    """Return log-probabilities without what rounding put above 0; raise if it is more than rounding."""
    if values.max() > ROUNDING:
        raise InvalidInput(f"{name} has a log-probability above 0")
    return np.minimum(values, 0)


def alone(logprobs: Any) -> TokenSpans:
    """The tokens of one answer; raises unless they are log-probabilities."""
    return TokenSpans.of([at_most_zero("logprobs", finite("logprobs", logprobs))])


def avg_neg_logprob(logprobs: Any) -> float:
    """-(1/L) sum of the log-probabilities, in [0, inf): MADE's "average log-probability", with its sign set right."""
    return float(avg_neg_logprobs(alone(logprobs))[0])


def max_neg_logprob(logprobs: Any) -> float:
    """-ln of the least probable token, in [0, inf): MADE's "maximum log-probability"."""
    return float(max_neg_logprobs(alone(logprobs))[0])


def perplexity(logprobs: Any) -> float:
    """exp of `avg_neg_logprob`, in [1, inf]; infinite where that overflows. It ranks as `avg_neg_logprob` does."""
    return float(perplexities(alone(logprobs))[0])


def improbability(logprobs: Any) -> float:
    """1 - probability of the whole answer, in [0, 1]."""
    return float(improbabilities(alone(logprobs))[0])


def greedy_neg_loglikelihood(logprobs: Any) -> float:
    """-ln probability of the whole answer, decoded greedily, in [0, inf); not divided by its length (G-NLL)."""
    return float(greedy_neg_loglikelihoods(alone(logprobs))[0])


def avg_token_prob(logprobs: Any) -> float:
    """1 - mean token probability, in [0, 1]: GAP's "average token-level probability"."""
    return float(avg_token_probs(alone(logprobs))[0])


def sequence_confidence(logprobs: Any) -> float:
    """Geometric mean of the token probabilities, in (0, 1]: a confidence, higher when surer (MADE, per label)."""
    return float(np.exp(-avg_neg_logprobs(alone(logprobs))[0]))
