"""An alarm about scores that no longer come as those before did, which may be looked at after every score
(METHODS 9.4)."""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, finite, fraction, real_number, same_length, unit_interval

SLACK = 1e-12
BLOCK = 1024
"""So many scores of a stream are compared with each other at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ExchangeabilityAlarm:
    log_martingale: Array
    """[n], after each score."""

    alarm_at: int | None
    """The number of the first score, from 1, at which the martingale had reached 1 / delta."""


def conformal_p_values(reference: Any, stream: Any, uniforms: Any) -> Array:
    """[n], for each score of the stream the share of larger ones among the reference, all earlier scores and itself.

    Ties, itself included, count by the `uniforms` [n] in [0, 1]; with independent ones the p-values are independent
    and uniform as long as scores are exchangeable (Vovk et al. 2005).
    """
    bag, scores = np.sort(finite("reference", reference)), finite("stream", stream)
    theta = unit_interval("uniforms", uniforms)
    same_length(stream=scores, uniforms=theta)
    p = np.empty(len(scores))
    for start in range(0, len(scores), BLOCK):
        s = scores[start : start + BLOCK]
        upto = np.searchsorted(bag, s, side="right")
        larger, equal = len(bag) - upto, upto - np.searchsorted(bag, s, side="left")
        earlier = np.tri(len(s), k=-1, dtype=bool)
        larger = larger + (earlier & (s > s[:, np.newaxis])).sum(axis=1)
        equal = equal + (earlier & (s == s[:, np.newaxis])).sum(axis=1) + 1
        size = len(bag) + np.arange(1, len(s) + 1)
        p[start : start + BLOCK] = (larger + theta[start : start + BLOCK] * equal) / size
        bag = np.sort(np.concatenate([bag, s]), kind="stable")
    return p


def exchangeability_martingale(p_values: Any, jump: Any = 0.01, delta: Any = 0.05) -> ExchangeabilityAlarm:
    """Bet that p-values [n] in a row are mostly low, or mostly high, or neither: the simple jumper (Vovk et al. 2021).

    It ever reaches 1 / delta with probability at most delta if scores are exchangeable, which daily rhythms violate
    too. New scores join those they are compared with and dilute a change: start again after an alarm.
    """
    p = unit_interval("p_values", p_values)
    share = fraction("jump", real_number("jump", jump), open_low=True)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    path = np.empty(len(p))
    low = even = high = 1 / 3  # shares of the capital; its logarithm is kept apart, so that it never overflows
    total = 0.0
    for at, gain in enumerate((p - 0.5).tolist()):
        low = ((1 - share) * low + share / 3) * (1 - gain)
        even = (1 - share) * even + share / 3
        high = ((1 - share) * high + share / 3) * (1 + gain)
        grown = low + even + high
        low, even, high = low / grown, even / grown, high / grown
        total += log(grown)
        path[at] = total
    reached = np.flatnonzero(path >= -np.log(delta) - SLACK)
    return ExchangeabilityAlarm(log_martingale=path, alarm_at=int(reached[0]) + 1 if len(reached) else None)
