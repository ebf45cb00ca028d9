"""Bounds of a mean of losses in [0, 1], by betting against it (Waudby-Smith & Ramdas 2023; Bates et al. 2021).

For losses other than 0 and 1 the binomial bound does not exist, and Hoeffding's ignores that a variance is small. Rows
come in an order that does not depend on the losses. For losses of 0 and 1 with equal weights the binomial bound is
exact and a little shorter.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from demur.policies.learn_then_test import LearnedLimits, RejectedLimits, Testing
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    ascending,
    finite,
    fraction,
    one_of,
    real_number,
    same_length,
    unit_interval,
)

BISECTIONS = 60


def betting_p_value(losses: Any, target: float, delta: float = 0.05) -> float:
    """Return a p-value of "the mean of the losses is `target` or more", from `losses` [n] in [0, 1].

    It is 1 over the largest capital along the way, and valid whatever the distribution (Ville 1939). `delta` only sets
    the stakes: choose the level at which the test is read.
    """
    x = unit_interval("losses", losses)
    fraction("target", real_number("target", target), open_high=True)
    return _p_value(x, target, _level(delta))


def betting_upper_bound(losses: Any, delta: float = 0.05) -> float:
    """Return a number that the mean exceeds with probability `delta` at most, from `losses` [n] in [0, 1]; 1 where so
    few rows show nothing."""
    x, level = unit_interval("losses", losses), _level(delta)
    stakes, wanted = _stakes(x, level), -np.log(level)
    if _largest(x, stakes, 1.0) < wanted:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if _largest(x, stakes, middle) >= wanted else (middle, high)
    return high


def ltt_betting(
    u: Any,
    losses: Any,
    thresholds: Any,
    target_risk: float,
    delta: float = 0.05,
    method: Testing = "bonferroni",
    weights: Any = None,
    max_weight: float | None = None,
) -> LearnedLimits:
    """Test whether the mean loss of {u <= t} is above `target_risk`, for each t of the ascending `thresholds` [J].

    `u` [n] is higher when less sure; `losses` [n] are in [0, 1], read where the weight is above 0. The promise is that
    of `learn_then_test`. With `weights` [n] and the declared `max_weight`, the largest that can be, it speaks of the
    weighted mean: traffic of which each row stands for so much. A weight above `max_weight` raises.
    """
    scores, limits = finite("u", u), ascending("thresholds", thresholds)
    fraction("target_risk", real_number("target_risk", target_risk), open_high=True)
    level = _level(delta)
    one_of("method", method, ("bonferroni", "fixed_sequence"))
    x, counted = _bets(losses, target_risk, weights, max_weight, scores)

    def bet_at(t: float) -> Array:
        accepted = scores <= t
        return x[accepted] if (accepted & counted).any() else np.empty(0)

    tested = rejected_by_betting(map(bet_at, limits.tolist()), len(limits), target_risk, delta=level, method=method)
    threshold = float(limits[tested.rejected[-1]]) if tested.rejected else -np.inf
    return LearnedLimits(p_values=tested.p_values, rejected=tested.rejected, threshold=threshold)


def rejected_by_betting(
    bets: Iterable[Array], n_limits: int, target_risk: float, *, delta: float, method: Testing
) -> RejectedLimits:
    """Test limits, the strictest first, by what is bet on at each: numbers in [0, 1] whose mean is `target_risk` or
    more where the risk is. A limit without any number is not rejected."""
    level = delta / n_limits if method == "bonferroni" else delta
    p_values = np.array([_p_value(x, target_risk, level) if len(x) else 1.0 for x in bets])
    passed = p_values <= level
    rejected = np.flatnonzero(passed if method == "bonferroni" else np.logical_and.accumulate(passed))
    return RejectedLimits(p_values=p_values, rejected=rejected.tolist())


def weighted_bets(losses: Array, weights: Array, max_weight: float, target: float) -> Array:
    """Return [n] numbers in [0, 1] whose mean is `target` or more exactly where the weighted mean of the losses is."""
    return np.asarray(target + weights / max_weight * (losses - target))


@lru_cache(maxsize=256)
def labels_without_loss(max_risk: float, delta: float) -> int:
    """Return the smallest n for which betting shows with n losses of 0 that their mean is below `max_risk`, but for
    `delta`."""

    def enough(n: int) -> bool:
        return _p_value(np.zeros(n), max_risk, delta) <= delta

    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _bets(losses: Any, target: float, weights: Any, max_weight: Any, scores: Array) -> tuple[Array, Mask]:
    """What is bet on, [n] in [0, 1]: its mean is the target or more exactly where the weighted risk is; and which rows
    count."""
    if weights is None:
        if max_weight is not None:
            raise InvalidInput("max_weight is given without weights")
        x = unit_interval("losses", losses)
        same_length(u=scores, losses=x)
        return x, np.ones(len(x), dtype=bool)
    if max_weight is None:
        raise InvalidInput("max_weight is missing: declare the largest weight that a row can have")
    most, w = real_number("max_weight", max_weight, above=0), finite("weights", weights)
    if w.min() < 0 or w.max() > most:
        raise InvalidInput(f"weights has a value outside [0, {most:g}]")
    if isinstance(losses, str | bytes) or not isinstance(losses, Sequence | np.ndarray):
        raise InvalidInput("losses is not a list")
    same_length(u=scores, losses=losses, weights=w)
    known = w > 0
    own = np.full(len(w), target)
    if known.any():
        own[known] = unit_interval("losses", [losses[row] for row in np.flatnonzero(known).tolist()])
    return weighted_bets(own, w, most, target), known


def _level(delta: Any) -> float:
    return fraction("delta", real_number("delta", delta), open_low=True, open_high=True)


def _stakes(x: Array, delta: float) -> Array:
    """The share of the capital on each row, from the rows before it."""
    n = len(x)
    counts = np.arange(1, n + 1.0)
    mean = (0.5 + np.cumsum(x)) / (1 + counts)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (1 + counts)
    before = np.append(0.25, variance[:-1])
    return np.asarray(np.minimum(1.0, np.sqrt(2 * np.log(1 / delta) / (n * before))))


def _largest(x: Array, stakes: Array, target: float) -> float:
    """ln of the largest capital along the way, which starts at 1."""
    with np.errstate(divide="ignore"):  # all is lost, and stays so
        path = np.cumsum(np.log1p(np.maximum(-stakes * (x - target), -1.0)))
    return max(0.0, float(path.max()))


def _p_value(x: Array, target: float, delta: float) -> float:
    return float(min(1.0, np.exp(-_largest(x, _stakes(x, delta), target))))
