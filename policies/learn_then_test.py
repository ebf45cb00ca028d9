"""A limit chosen by testing each of a fixed list for being too risky (Angelopoulos et al. 2021, learn then test)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from demur.policies.risk_bound import binomial_p_values
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    ascending,
    finite,
    fraction,
    outcomes,
    real_number,
    same_length,
)

Testing = Literal["bonferroni", "fixed_sequence"]


@dataclass(frozen=True, kw_only=True)
class LearnedLimits:
    """What the tests of J limits said."""

    p_values: Array
    """[J], how likely so few errors would be if the risk were the target or more."""

    rejected: list[int]
    """The limits for which "too risky" is rejected: the risk is within the target at all of them at once."""

    threshold: float
    """The largest of these, accept iff u <= threshold; -inf accepts nothing."""


def learn_then_test(
    u: Any,
    errors: Any,
    thresholds: Any,
    target_risk: float,
    *,
    delta: float = 0.05,
    method: Testing = "bonferroni",
) -> LearnedLimits:
    """Test whether the mean error of {u <= t} is above `target_risk`, for each t of the ascending `thresholds` [J].

    `u` [n] is higher when less sure, `errors` [n] is 0/1. If later rows are drawn like these and the thresholds were
    fixed before the labels were seen, the risk is within the target at every rejected threshold, except with
    probability `delta`. `bonferroni` tests each at delta / J. `fixed_sequence` tests at delta, from the strictest on,
    and stops at the first that is not rejected: start where enough rows are accepted, or it stops at once.
    """
    scores, wrong = finite("u", u), outcomes("errors", errors)
    same_length(u=scores, errors=wrong)
    limits = ascending("thresholds", thresholds)
    fraction("target_risk", real_number("target_risk", target_risk))
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    if method not in ("bonferroni", "fixed_sequence"):
        raise InvalidInput(f"method is {method!r}; it is 'bonferroni' or 'fixed_sequence'")
    order = np.argsort(scores)
    accepted = np.searchsorted(scores[order], limits, side="right")
    n_errors = np.append(0, np.cumsum(wrong[order]))[accepted]
    tested = rejected_limits(n_errors, accepted, target_risk, delta=delta, method=method)
    threshold = float(limits[tested.rejected[-1]]) if tested.rejected else -np.inf
    return LearnedLimits(p_values=tested.p_values, rejected=tested.rejected, threshold=threshold)


@dataclass(frozen=True, kw_only=True)
class RejectedLimits:
    """What the tests of J limits said, whatever the limits are of."""

    p_values: Array
    rejected: list[int]


def rejected_limits(
    n_errors: Any, n_accepted: Any, target_risk: float, *, delta: float, method: Testing
) -> RejectedLimits:
    """Test limits that accept `n_accepted` [J] rows, `n_errors` [J] of them wrong; the strictest comes first."""
    p_values = binomial_p_values(n_errors, n_accepted, target_risk)
    level = delta / len(p_values) if method == "bonferroni" else delta
    passed = p_values <= level
    rejected = np.flatnonzero(passed if method == "bonferroni" else np.logical_and.accumulate(passed))
    return RejectedLimits(p_values=p_values, rejected=rejected.tolist())
