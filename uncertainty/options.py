"""Scores from sampled answers to a question with a fixed list of options (TOUR 4.1; GAP 4.1, appendix G).

`samples` are identities out of `options`, put back into one order if the options were shuffled for each sample:
letters of different shuffles are different options. `None` is a reply that could not be parsed.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import entr

from demur.uncertainty.checks import Array, InvalidInput, whole_number


@dataclass(frozen=True, kw_only=True)
class SelfConsistency:
    """What the share of positive answers says."""

    confidence_positive: float
    """Confidence in the positive class, in [0, 1]."""

    uncertainty: float
    """Share of the minority, in [0, 1/2]."""


@dataclass(frozen=True, kw_only=True)
class SemanticEntropy:
    """Spread of the answers; NaN, and no majority, if no reply could be parsed."""

    entropy: float
    """In nats, in [0, ln K], K outcomes."""

    normalized: float
    """entropy / ln K, in [0, 1]; 0 with a single outcome."""

    confidence: float
    """1 - normalized."""

    majority: Hashable | None
    """The most frequent option; of equally frequent ones the first listed."""

    n_unparsed: int


def self_consistency(n_positive: Any, n_total: Any) -> SelfConsistency:
    """Score `n_positive` positive answers out of `n_total`."""
    total = whole_number("n_total", n_total, least=1)
    positive = whole_number("n_positive", n_positive)
    if positive > total:
        raise InvalidInput(f"n_positive is {positive}, above n_total, {total}")
    return SelfConsistency(confidence_positive=positive / total, uncertainty=min(positive, total - positive) / total)


def semantic_entropy(
    samples: Any, options: Any, *, unparsed: Literal["outcome", "drop"] = "outcome"
) -> SemanticEntropy:
    """Entropy of the distribution of `samples` over K = len(options) options.

    Unparsed replies, where there are any, are together one more outcome, number K + 1 (`outcome`), or are left
    out (`drop`).
    """
    if unparsed not in ("outcome", "drop"):
        raise InvalidInput(f"unparsed is {unparsed!r}; it is 'outcome' or 'drop'")
    names, counts, n_unparsed = _counted(samples, options)
    if not counts.any():
        return SemanticEntropy(
            entropy=np.nan, normalized=np.nan, confidence=np.nan, majority=None, n_unparsed=n_unparsed
        )
    majority = names[int(counts.argmax())]
    if unparsed == "outcome" and n_unparsed:
        counts = np.append(counts, n_unparsed)
    entropy = float(entr(counts / counts.sum()).sum()) + 0.0  # + 0.0, because entr(1) is -0.0
    normalized = min(1.0, entropy / float(np.log(len(counts)))) if len(counts) > 1 else 0.0
    return SemanticEntropy(
        entropy=entropy,
        normalized=normalized,
        confidence=1 - normalized,
        majority=majority,
        n_unparsed=n_unparsed,
    )


def sample_frequency_scores(samples: Any, options: Any) -> Array:
    """(M - count) / M for each option, M samples, in [0, 1]; unparsed replies stay in M and speak for no option.

    The quotient, not 1 - count / M, whose last digit can differ: conformal thresholds are compared exactly.
    """
    _, counts, n_unparsed = _counted(samples, options)
    m = counts.sum() + n_unparsed
    return np.asarray((m - counts) / m)


def _counted(samples: Any, options: Any) -> tuple[list[Hashable], Array, int]:
    """The options, how often each was the answer, and how many replies were unparsed."""
    replies, names = _listed("samples", samples), _listed("options", options)
    try:
        position = {name: index for index, name in enumerate(names)}
        strangers = [reply for reply in replies if reply is not None and reply not in position]
    except TypeError:
        raise InvalidInput("samples or options hold something that cannot be an option") from None
    if len(position) != len(names) or any(name is None or name != name for name in names):  # NaN is not itself
        raise InvalidInput("options repeat, or hold None or NaN")
    if strangers:
        raise InvalidInput(f"samples hold {strangers[0]!r}, which is no option; an unparsed reply is None")
    parsed = [position[reply] for reply in replies if reply is not None]
    counts = np.bincount(np.array(parsed, dtype=np.intp), minlength=len(names)).astype(np.float64)
    return names, counts, len(replies) - len(parsed)


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInput(f"{name} is {values!r}, not a list")
    if not (listed := list(values)):
        raise InvalidInput(f"{name} is empty")
    return listed
