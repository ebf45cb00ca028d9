"""Entropy of each generated token over the alternatives that the model reported (MADE A.4).

`top_logprobs` holds, per token, the log-probabilities of the top alternatives (5 in MADE); the numbers of them may
differ. -inf is a masked alternative and adds nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import entr, logsumexp

from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.token_spans import ROUNDING
from demur.uncertainty.tokens import at_most_zero

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
    return entropies([_alternatives(token) for token in top_logprobs], residual)


def token_entropy_sequence(
    top_logprobs: Any, *, residual: Residual = "outcome", reduce: Literal["sum", "mean", "max"] = "sum"
) -> float:
    """The entropies of the tokens of one label as one number: their sum in MADE's code, or mean, or maximum."""
    of_tokens = token_entropy(top_logprobs, residual=residual)
    if reduce not in REDUCE:
        raise InvalidInput(f"reduce is {reduce!r}; it is 'sum', 'mean' or 'max'")
    return float(REDUCE[reduce](of_tokens))


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


def entropies(alternatives: Sequence[Array], residual: Residual) -> Array:
    """[T], of the log-probabilities of each token's alternatives; NaN also where there are none, or they are none."""
    counts = np.array([len(token) for token in alternatives])
    rows = np.full((len(counts), max(1, counts.max())), -np.inf)  # what is masked adds nothing
    rows[np.arange(rows.shape[1]) < counts[:, None]] = np.concatenate(alternatives)
    known = (counts > 0) & (rows.max(axis=1) <= ROUNDING)  # False for NaN
    rows = np.minimum(rows, 0)
    p = np.exp(rows)
    known &= p.sum(axis=1) <= 1 + MASS_TOLERANCE
    if residual == "renormalize":
        with np.errstate(invalid="ignore"):  # every alternative is masked
            p = np.exp(rows - logsumexp(rows, axis=1, keepdims=True))  # the sum of tiny probabilities may underflow
    found = entr(p).sum(axis=1)
    if residual == "outcome":
        found += entr(np.maximum(0.0, 1 - p.sum(axis=1)))
    return np.where(known, found + 0.0, np.nan)  # + 0.0, because entr(1) is -0.0
