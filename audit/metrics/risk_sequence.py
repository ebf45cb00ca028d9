"""Intervals for the risk of answered records that hold at all times at once, so they may be read at any (METHODS 9.4).

Both take answered records [n] in the order in which outcomes became final, as `risk_monitor` does.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.risk_monitor import STAKES, labelled_answers, log_mean
from demur.uncertainty.checks import Array, Mask, fraction, real_number

HALVINGS = 40
"""An end is found to within 2^-40, and on its careful side."""

CELLS_AT_A_TIME = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskSequence:
    """[n] each, after each record. 0 and 1 where nothing is excluded."""

    lower: Array
    upper: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class RunningRiskSequence:
    """[n] each, after each record. The estimate may lie above 1 while labels are few."""

    estimate: Array
    lower: Array
    upper: Array


def risk_sequence(errors: Any, labelled: Any, probability: Any, floor: Any, delta: Any = 0.05) -> RiskSequence:
    """The interval for a constant risk: all targets against which no monitor that starts at once would have alarmed.

    It covers a constant risk at all times with probability 1 - delta. If the risk moves, `lower` still bounds the
    largest risk so far from below and `upper` the smallest from above: lower > upper is evidence that it moved.
    The work grows with the labels times the different label probabilities among them.
    """
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    known, e, ratio = labelled_answers(errors, labelled, probability, floor)
    level = np.log(2) - np.log(delta)
    lower = np.maximum.accumulate(_ends(e, ratio, level, above=True)) if len(e) else e
    upper = np.minimum.accumulate(_ends(e, ratio, level, above=False)) if len(e) else e
    return RiskSequence(lower=_at_all_records(0.0, lower, known), upper=_at_all_records(1.0, upper, known))


def fixed_bounds(errors: Array, weights: Array, counts: NDArray[np.int64], delta: float) -> Interval:
    """The ends of `risk_sequence` if it is looked at once, after all labels: of each distinct pair [u] of an error in
    [0, 1] and a weight, 1 / probability, how often it came. Nothing is excluded without a label."""
    pairs = np.column_stack([errors, weights / weights.max(initial=1e-300)])
    level = np.log(2) - np.log(delta)
    ends = []
    for above in (True, False):
        moving = pairs[:, 0] > 0 if above else pairs[:, 0] < 1
        if not moving.any():
            ends.append(0.0 if above else 1.0)
            continue
        stakes = np.array(STAKES["above" if above else "below"])
        fixed = counts[~moving] @ np.log1p(-np.multiply.outer(pairs[~moving, 1], stakes))
        found = _crossings(
            pairs[moving], counts[np.newaxis, moving].astype(np.float64), fixed[np.newaxis], stakes, level, above=above
        )
        ends.append(float(found[0]))
    return Interval(lower=ends[0], upper=ends[1])


def fixed_p_values(errors: Array, weights: Array, counts: NDArray[np.int64], target: float) -> tuple[float, float]:
    """Return how surprising the labels are if the risk is at most `target`, and if it is at least that.

    It is 1 over the capital of `fixed_bounds` at this target, which lies strictly between 0 and 1; of each distinct
    pair [u] of an error in [0, 1] and a weight, 1 / probability, how often it came.
    """
    ratio = weights / weights.max(initial=1e-300)
    found = []
    for direction, gains in (
        ("above", ratio * (errors / target - 1)),
        ("below", ratio * ((target - errors) / (1 - target))),
    ):
        stakes = np.array(STAKES[direction])
        logs = counts @ np.log1p(np.multiply.outer(gains, stakes))
        found.append(float(np.exp(-max(0.0, float(log_mean(logs))))))
    return found[0], found[1]


def running_risk_sequence(
    errors: Any, labelled: Any, probability: Any, floor: Any, delta: Any = 0.05
) -> RunningRiskSequence:
    """The interval for the mean so far of the risks of the answered records, whether or not they move.

    Empirical Bernstein (Fan et al. 2015; Howard et al. 2021), a union over ten stakes. Wide when `floor` is far below
    the usual label probability.
    """
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    known, e, ratio = labelled_answers(errors, labelled, probability, floor)
    n = len(known)
    times = np.arange(1.0, n + 1)
    x = np.zeros(n)
    x[known] = ratio * e
    total = np.cumsum(x)
    foreseen = np.concatenate([[0.0], total[:-1]]) / times
    variance = np.cumsum(np.square(x - foreseen))
    stakes = np.array(STAKES["above"])
    width = np.full(n, np.inf)
    for s in stakes:
        excess = -np.log1p(-s) - s
        np.minimum(width, (np.log(2 * len(stakes)) - np.log(delta) + excess * variance) / (s * times), out=width)
    mean = total / times
    return RunningRiskSequence(
        estimate=mean / floor,
        lower=np.clip((mean - width) / floor, 0.0, 1.0),
        upper=np.clip((mean + width) / floor, 0.0, 1.0),
    )


@dataclass(frozen=True, kw_only=True)
class LabelCounts:
    """How often each pair of an error and of floor / probability occurred among the labels so far: [u, 2] and [u]."""

    pairs: Sequence[tuple[float, float]] = ()
    counts: Sequence[int] = ()

    def added(self, e: Array, ratio: Array) -> Self:
        pairs, counts = np.unique(np.column_stack([e, ratio]), axis=0, return_counts=True)
        total = Counter(dict(zip(self.pairs, self.counts, strict=True)))
        total.update(dict(zip(map(tuple, pairs.tolist()), counts.tolist(), strict=True)))
        known = sorted(total)
        return type(self)(pairs=tuple(known), counts=tuple(total[pair] for pair in known))


def further_ends(before: LabelCounts, e: Array, ratio: Array, delta: float) -> tuple[Array, Array]:
    """Both ends of the interval after each further label [t], if only that moment is looked at: the running maximum and
    minimum are the caller's, as is `ratio` = floor / probability in (0, 1]."""
    level = np.log(2) - np.log(delta)
    return _ends(e, ratio, level, above=True, before=before), _ends(e, ratio, level, above=False, before=before)


def _at_all_records(before: float, values: Array, known: Mask) -> Array:
    """The values [t] after each label, at each record [n]."""
    return np.concatenate([[before], values])[np.cumsum(known)]


def _ends(e: Array, ratio: Array, level: float, *, above: bool, before: LabelCounts | None = None) -> Array:
    """[t], the end of the interval after each label, if only that moment is looked at.

    Wealth depends on the labels through how often each pair of an error and a ratio occurred. An end moves inwards
    only at labels which can raise the wealth: for the lower end those with an error, for the upper those without.
    """
    ends = np.full(len(e), 0.0 if above else 1.0)
    moves = e > 0 if above else e < 1
    earlier = before or LabelCounts()
    rows = np.vstack([np.array(earlier.pairs).reshape(-1, 2), np.column_stack([e, ratio])])
    pairs, codes = np.unique(rows, axis=0, return_inverse=True)
    stakes = np.array(STAKES["above" if above else "below"])
    moving = pairs[:, 0] > 0 if above else pairs[:, 0] < 1
    lost = np.log1p(-np.multiply.outer(pairs[~moving, 1], stakes))  # [u, s]; such a label costs the whole stake
    seen = np.zeros(len(pairs))
    seen[codes[: len(earlier.pairs)]] = earlier.counts
    codes = codes[len(earlier.pairs) :]
    block = max(1, CELLS_AT_A_TIME // (len(pairs) * len(stakes)))
    for at in range(0, len(e), block):
        codes_here = codes[at : at + block]
        counts: Array = np.cumsum(codes_here[:, np.newaxis] == np.arange(len(pairs)), axis=0) + seen
        seen = counts[-1]
        here = moves[at : at + block]
        if here.any():
            ends[at : at + block][here] = _crossings(
                pairs[moving], counts[here][:, moving], counts[here][:, ~moving] @ lost, stakes, level, above=above
            )
    return ends


def _crossings(pairs: Array, counts: Array, fixed: Array, stakes: Array, level: float, *, above: bool) -> Array:
    """[a], where ln of the wealth as a function of the target, which is monotone, passes `level`.

    `counts` [a, u] are how often each of the pairs [u, 2] occurred, `fixed` [a, s] what the other labels left.
    """
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    e, ratio = pairs.T
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        m = middle[:, np.newaxis]
        gains = ratio * (e / m - 1) if above else ratio * ((m - e) / (1 - m))  # [a, u]
        grown = [(counts * np.log1p(gains * s)).sum(axis=1) for s in stakes]
        excluded = log_mean(np.column_stack(grown) + fixed) >= level
        low = np.where(excluded == above, middle, low)
        high = np.where(excluded == above, high, middle)
    return low if above else high
