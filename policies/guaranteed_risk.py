"""A limit on confidence found by bisection, with a bound on the risk above it (Geifman & El-Yaniv 2017, SGR).

`guaranteed_risk` is the search as printed. It begins with the surer half of the rows, and where these are too few to
show a low risk though none is wrong, it only looks for fewer. `widest_safe_limit` leaves out limits that cannot pass,
so that a promise which all rows carry is found.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.risk_bound import binomial_upper_bound, labels_without_error
from demur.uncertainty.checks import Array, finite, fraction, outcomes, real_number, same_length


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


@dataclass(frozen=True, kw_only=True)
class SearchedLimits:
    """Limits that a search chooses from. The number of rows decides on them, never a label."""

    left_out: tuple[int, ...]
    """How many of the least sure rows each limit leaves out, from none on. Each would pass if no answer that it accepts
    were wrong."""

    level: float
    """The error level of each test."""


def searched_limits(n: int, target_risk: float, delta: float) -> SearchedLimits | None:
    """Return what is searched in `n` rows; None where they are too few for any limit to pass.

    Tests share `delta`, and K of them find the widest of 2**K - 1 limits. So many tests are planned as tell all limits
    apart that can pass, or, where rows are few, as leave one that can.
    """
    planned: SearchedLimits | None = None
    for steps in itertools.count(1):
        level = delta / steps
        fewest = labels_without_error(target_risk, level)
        fewest += binomial_upper_bound(0, fewest, level) >= target_risk  # it must be below
        if fewest > n:
            return planned
        most = n - fewest
        limits = min(most + 1, 2**steps - 1)
        planned = SearchedLimits(left_out=tuple((np.arange(limits) * most // max(1, limits - 1)).tolist()), level=level)
        if limits == most + 1:
            return planned
    return planned


def widest_safe_limit(
    confidence: Array, wrong: Array, target_risk: float, searched: SearchedLimits
) -> TriedLimit | None:
    """Return the widest of these limits found that keeps the risk of rows [n] below a target; None where none is.

    If later rows are drawn like these, the risk above it is below `target_risk`, except with probability `delta`. A
    test that passes is followed by wider limits, one that fails by narrower ones. Where the risk grows with the width,
    every limit that would break the promise is then reached by one course of tests alone, and the levels of its tests
    add up to `delta` at most. Where it does not grow, simulation says so (METHODS 4.3).
    """
    n = len(confidence)
    order = np.argsort(confidence)
    ranked = confidence[order]
    errors_from = np.cumsum(np.rint(wrong[order]).astype(np.int64)[::-1])[::-1]  # [i]: among ranked[i:]
    found: TriedLimit | None = None
    low, high = 0, len(searched.left_out)
    while low < high:
        middle = (low + high) // 2
        first = int(
            np.searchsorted(ranked, ranked[searched.left_out[middle]], side="left")
        )  # the tie group is accepted whole
        accepted, n_errors = n - first, int(errors_from[first])
        bound = binomial_upper_bound(n_errors, accepted, searched.level)
        if bound >= target_risk:
            low = middle + 1
            continue
        high = middle
        if found is None or accepted / n > found.coverage:
            found = TriedLimit(
                threshold=float(ranked[first]), coverage=accepted / n, risk=n_errors / accepted, bound=bound
            )
    return found
