"""A limit on confidence found by bisection, with a bound on the risk above it (Geifman & El-Yaniv 2017, SGR)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.risk_bound import binomial_upper_bound
from demur.uncertainty.checks import finite, fraction, outcomes, real_number, same_length


@dataclass(frozen=True, kw_only=True)
class TriedLimit:
    """A limit that the search tried: accept iff confidence >= threshold."""

    threshold: float
    coverage: float
    """Share of the rows that are accepted, tied ones included."""

    risk: float
    """Share of the accepted rows that are wrong."""

    bound: float
    """The true risk is below this for every visited limit at once, except with probability `delta`."""


@dataclass(frozen=True, kw_only=True)
class GuaranteedRisk:
    """The visited limit of largest coverage whose bound is below the target; if none, +inf accepts nothing."""

    feasible: bool
    threshold: float
    coverage: float
    risk: float
    bound: float
    last_iterate: TriedLimit
    """Where the search as printed ends. It may miss the target."""


def bisection_steps(n: int) -> int:
    """Return max(1, ceil(log2 n)), in integers: a floating logarithm may be off by one at powers of two."""
    return max(1, (n - 1).bit_length())


def guaranteed_risk(confidence: Any, errors: Any, target_risk: float, *, delta: float = 0.05) -> GuaranteedRisk:
    """Search the `confidence` [n] of labelled rows, `errors` [n] 0/1, for a limit that keeps the risk below a target.

    If later rows are drawn like these, the risk above the returned limit is below `target_risk`, except with
    probability `delta` over the draw of these rows. Each of the K steps bounds its risk at delta / K, so the promise
    holds whichever is returned: the paper returns the last one whether or not it meets the target. With two distinct
    confidences or more, the search never visits the lowest: it does not find that everything may be answered.
    """
    scores, wrong = finite("confidence", confidence), outcomes("errors", errors)
    n = same_length(confidence=scores, errors=wrong)
    fraction("target_risk", real_number("target_risk", target_risk))
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    order = np.argsort(scores)
    ranked = scores[order]
    errors_from = np.cumsum(wrong[order].astype(np.int64)[::-1])[::-1]  # [i]: among ranked[i:]
    steps = bisection_steps(n)
    visited: list[TriedLimit] = []
    low, high = 1, n
    for _ in range(steps):
        middle = (low + high + 1) // 2
        first = int(np.searchsorted(ranked, ranked[middle - 1], side="left"))  # the tie group is accepted whole
        accepted, n_errors = n - first, int(errors_from[first])
        bound = binomial_upper_bound(n_errors, accepted, delta / steps)
        visited.append(
            TriedLimit(threshold=float(ranked[first]), coverage=accepted / n, risk=n_errors / accepted, bound=bound)
        )
        low, high = (low, middle) if bound < target_risk else (middle, high)
    safe = [limit for limit in visited if limit.bound < target_risk]
    last = visited[-1]
    if not safe:
        return GuaranteedRisk(
            feasible=False, threshold=np.inf, coverage=0.0, risk=np.nan, bound=np.nan, last_iterate=last
        )
    best = max(safe, key=lambda limit: limit.coverage)
    return GuaranteedRisk(
        feasible=True,
        threshold=best.threshold,
        coverage=best.coverage,
        risk=best.risk,
        bound=best.bound,
        last_iterate=last,
    )
