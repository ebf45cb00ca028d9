"""Scores of one generated answer from the log-probabilities of its tokens (MADE A.4; GAP 4.1).

`logprobs` are natural logarithms, one per token of the answer span; a reasoning trace before it is left out. APIs
round: a value in (0, 1e-6] is read as 0. Results are higher when the model is less sure, but for the one confidence.
"""

from typing import Any

import numpy as np

from uncertainty.checks import Array, InvalidInput, finite

ROUNDING = 1e-6
"""How far above 0 a log-probability may lie by rounding."""


def at_most_zero(name: str, values: Array) -> Array:
    """Return log-probabilities without what rounding put above 0; raise if it is more than rounding."""
    if values.max() > ROUNDING:
        raise InvalidInput(f"{name} has a log-probability above 0")
    return np.minimum(values, 0)


def avg_neg_logprob(logprobs: Any) -> float:
    """-(1/L) sum of the log-probabilities, in [0, inf): MADE's "average log-probability", with its sign set right."""
    values = _neg_logprobs(logprobs)
    return float((values / len(values)).sum())  # divided first, so that the sum cannot overflow


def max_neg_logprob(logprobs: Any) -> float:
    """-ln of the least probable token, in [0, inf): MADE's "maximum log-probability"."""
    return float(_neg_logprobs(logprobs).max())


def perplexity(logprobs: Any) -> float:
    """exp of `avg_neg_logprob`, in [1, inf]; infinite where that overflows. It ranks as `avg_neg_logprob` does."""
    with np.errstate(over="ignore"):
        return float(np.exp(avg_neg_logprob(logprobs)))


def improbability(logprobs: Any) -> float:
    """1 - probability of the whole answer, in [0, 1]."""
    return float(-np.expm1(-greedy_neg_loglikelihood(logprobs)))


def greedy_neg_loglikelihood(logprobs: Any) -> float:
    """-ln probability of the whole answer, decoded greedily, in [0, inf); not divided by its length (G-NLL)."""
    with np.errstate(over="ignore"):
        return float(_neg_logprobs(logprobs).sum())


def avg_token_prob(logprobs: Any) -> float:
    """1 - mean token probability, in [0, 1]: GAP's "average token-level probability"."""
    return float((-np.expm1(-_neg_logprobs(logprobs))).mean())


def sequence_confidence(logprobs: Any) -> float:
    """Geometric mean of the token probabilities, in (0, 1]: a confidence, higher when surer (MADE, per label)."""
    return float(np.exp(-avg_neg_logprob(logprobs)))


def _neg_logprobs(logprobs: Any) -> Array:
    """[L], each at least 0."""
    return np.abs(at_most_zero("logprobs", finite("logprobs", logprobs)))  # abs, because -0.0 is no score to print
