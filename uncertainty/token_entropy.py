"""Entropy of each generated token over the alternatives that the model reported (MADE A.4).

`top_logprobs` holds, per token, the log-probabilities of the top alternatives (5 in MADE); the numbers of them may
differ. -inf is a masked alternative and adds nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import entr, logsumexp

from uncertainty.checks import Array, InvalidInput
from uncertainty.tokens import at_most_zero

Residual = Literal["outcome", "renormalize", "ignore"]

MASS_TOLERANCE = 1e-4
"""How far above 1 the reported probabilities of one token may sum."""

REDUCE: dict[str, Callable[[Array], Any]] = {"sum": np.sum, "mean": np.mean, "max": np.max}


def token_entropy(top_logprobs: Any, *, residual: Residual = "outcome") -> Array:
    """Entropy of each token [L], natural logarithm, higher when less sure.

    The mass that the alternatives leave is one further outcome (`outcome`), is shared out by dividing by their
    sum (`renormalize`), or is left out (`ignore`). NaN where every alternative is masked and nothing can be
    renormalized.
    """
    if residual not in ("outcome", "renormalize", "ignore"):
        raise InvalidInput(f"residual is {residual!r}; it is 'outcome', 'renormalize' or 'ignore'")
    if not isinstance(top_logprobs, Sequence | np.ndarray) or len(top_logprobs) == 0:
        raise InvalidInput("top_logprobs is no list with an entry for each token, or is empty")
    # every token is checked before any is scored
    return np.array([_entropy(row, residual) for row in [_alternatives(token) for token in top_logprobs]])


def token_entropy_sequence(
    top_logprobs: Any, *, residual: Residual = "outcome", reduce: Literal["sum", "mean", "max"] = "sum"
) -> float:
    """The entropies of the tokens of one label as one number: their sum in MADE's code, or mean, or maximum."""
    entropies = token_entropy(top_logprobs, residual=residual)
    if reduce not in REDUCE:
        raise InvalidInput(f"reduce is {reduce!r}; it is 'sum', 'mean' or 'max'")
    return float(REDUCE[reduce](entropies))


def _alternatives(token: Any) -> Array:
    try:
        row = np.asarray(token, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"top_logprobs has a token whose alternatives are not numbers: {error}") from None
    if row.ndim != 1 or row.size == 0:
        raise InvalidInput("top_logprobs has a token without a list of alternatives")
    if np.isnan(row).any():
        raise InvalidInput("top_logprobs holds NaN")
    row = at_most_zero("top_logprobs", row)
    if np.exp(row).sum() > 1 + MASS_TOLERANCE:
        raise InvalidInput("top_logprobs has a token whose probabilities sum to more than 1")
    return row


def _entropy(row: Array, residual: Residual) -> float:
    if residual == "renormalize":
        if np.isneginf(row).all():
            return np.nan
        row = row - logsumexp(row)  # in logarithms: the sum of tiny probabilities may underflow
    p = np.exp(row)
    rest = max(0.0, 1 - float(p.sum())) if residual == "outcome" else 0.0
    return float(entr(p).sum() + entr(rest)) + 0.0  # + 0.0, because entr(1) is -0.0
