"""Prediction sets that keep their promise in this fit, except with a stated probability (METHODS 10.5).

A plain conformal set covers 1 - alpha on average over fits: one fit in two covers less. Here the rank is chosen so high
that few fits do (Vovk 2012; Park et al. 2020).
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import error_rate, order_statistic
from demur.policies.risk_bound import binomial_p_values
from demur.uncertainty.checks import finite, fraction, real_number, whole_number

SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class FitRank:
    """The rank of the score that becomes the limit, counted from 1 in ascending order."""

    rank: int
    """n + 1 where no rank will do: then every set is full."""

    feasible: bool
    failure: float
    """How probable it is that a fit of this rank misses more than alpha."""


def pac_rank(n: int, alpha: float, delta: float = 0.1) -> FitRank:
    """Return the smallest rank k of `n` fitted scores with P(Bin(n, alpha) <= n - k) <= delta.

    Sets with a score up to the k-th smallest then miss at most `alpha` of later rows drawn like the fitted ones, except
    with probability `delta` over the choice of these. At least ln(delta) / ln(1 - alpha) rows are needed.
    """
    rows = whole_number("n", n, least=1)
    error_rate(alpha)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)

    def failure(beyond: int) -> float:
        return float(binomial_p_values(beyond, rows, alpha))

    # scores beyond the limit: the more, the more probable a failure
    beyond = bisect_left(range(rows), True, key=lambda m: failure(m) > delta * (1 + SLACK)) - 1
    if beyond < 0:
        return FitRank(rank=rows + 1, feasible=False, failure=0.0)
    return FitRank(rank=rows - beyond, feasible=True, failure=failure(beyond))


def pac_quantile(scores: Any, alpha: float, delta: float = 0.1) -> float:
    """Return the score of `pac_rank` among `scores` [n], higher for less likely labels; +inf where no rank will do."""
    values = np.sort(finite("scores", scores))
    return order_statistic(values, pac_rank(len(values), alpha, delta).rank)
