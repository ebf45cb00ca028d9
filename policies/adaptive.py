"""Prediction sets whose level follows their own misses, for traffic that drifts (Gibbs & Candès 2021, ACI).

Over a long run the share of misses comes close to `alpha` whatever the traffic does. Nothing is promised for a day,
a group or a single prediction, and only outcomes that become known can move the level.
"""

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import quantile_at
from demur.policies.stream import drawn_values
from demur.uncertainty.checks import InvalidInput, finite, fraction, outcomes, real_number, whole_number


@dataclass(frozen=True, kw_only=True)
class AdaptiveRun:
    """What a run did at each of T steps."""

    alphas: list[float]
    """[T + 1], the level before each step and after the last. May leave [0, 1]."""

    quantiles: list[float]
    """[T], options with score <= this were in the set; +inf is a full set, -inf an empty one."""

    errors: list[int]
    """[T], 1 where the set missed the truth."""


def adaptive_alphas(alpha: float, gamma: float, errs: Any) -> list[float]:
    """Return alpha_1 .. alpha_{T+1}: after each of the T 0/1 `errs` the level moves by gamma (alpha - err).

    A miss lowers the level, which widens the next set. `errs` may be empty.
    """
    _check(alpha, gamma)
    misses = outcomes("errs", errs).tolist() if np.size(errs) else []
    levels = [float(alpha)]
    for miss in misses:
        levels.append(levels[-1] + gamma * (alpha - miss))
    return levels


def ipw_adaptive_alphas(alpha: float, gamma: float, errs: Any, weights: Any) -> list[float]:
    """Return the levels where only some outcomes become known: the level moves by gamma w (alpha - err), w = 1 / the
    probability that this one would be labelled, and 0 without a label, where `errs` is not read (METHODS 9.5).

    With sets that are full at a level of 0 or below and empty from 1 on, and weights of at most w_max, levels stay in
    [-gamma (1 - alpha) w_max, 1 + gamma alpha w_max], and |(1/T) sum w (err - alpha)| <= (1 + gamma w_max) / (gamma T).
    Over the draws of labels its expectation is that of the mean of err - alpha.
    """
    _check(alpha, gamma)
    levels = [float(alpha)]
    for miss, weight in zip(*drawn_values("errs", errs, weights, outcomes), strict=True):
        levels.append(levels[-1] + gamma * weight * (alpha - miss))
    return levels


def run_adaptive(
    alpha: float, gamma: float, calibration_scores: Any, true_scores: Any, *, window: int | None = None
) -> AdaptiveRun:
    """Set the quantile before each of the `true_scores` [T] from what was seen so far, then let the miss move alpha.

    Seen are the `calibration_scores` [n] and all earlier true scores, or only the last `window` of these together.
    """
    _check(alpha, gamma)
    seen = finite("calibration_scores", calibration_scores).tolist()
    coming = finite("true_scores", true_scores).tolist()
    if window is not None:
        seen = seen[-whole_number("window", window, least=1) :]
    ranked = sorted(seen)
    levels, quantiles, errors = [float(alpha)], [], []
    for score in coming:
        quantile = quantile_at(ranked, levels[-1])
        miss = int(score > quantile)
        quantiles.append(quantile)
        errors.append(miss)
        levels.append(levels[-1] + gamma * (alpha - miss))
        seen.append(score)
        insort(ranked, score)
        if window is not None and len(ranked) > window:
            del ranked[bisect_left(ranked, seen[-1 - window])]
    return AdaptiveRun(alphas=levels, quantiles=quantiles, errors=errors)


def _check(alpha: float, gamma: float) -> None:
    fraction("alpha", real_number("alpha", alpha), open_low=True, open_high=True)
    if real_number("gamma", gamma) <= 0:
        raise InvalidInput(f"gamma is {gamma}; it is the size of a step and above 0")
