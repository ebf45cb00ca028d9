"""A limit on a score that follows the errors among the labelled answers (METHODS 9.5).

Over a long run it keeps the *joint* risk, answered and wrong per request, from exceeding a target, whatever the
traffic does; nothing is promised for a day, a group or a single prediction. One labelled error moves the limit by step
times its weight: keep that below a few percent of the range of scores, or it alternates between answering all and
nothing. A version for the risk among the answered would lock itself out once nothing is answered.
"""

from dataclasses import dataclass
from typing import Any

from demur.policies.stream import drawn_values, known_or_nan
from demur.uncertainty.checks import InvalidInput, fraction, real_number, same_length, unit_interval


@dataclass(frozen=True, kw_only=True)
class TrackedLimit:
    """`target` is the joint risk, and `step` in units of the score, which is higher when less sure."""

    target: float
    step: float

    ceiling: float = 1.0
    """The highest that the limit may become."""

    def __post_init__(self) -> None:
        fraction("target", real_number("target", self.target), open_low=True, open_high=True)
        real_number("step", self.step, above=0)
        real_number("ceiling", self.ceiling)

    def answers(self, u: float, limit: float) -> bool:
        """Whether a score is at or below the limit; what is unknown, NaN, is not."""
        return u <= limit

    def next_limit(self, limit: float, answered: bool, error: float = 0.0, weight: float = 0.0) -> float:
        """The limit after a request: up by one that is held, and by one that is answered and labelled by step times
        weight times how far its error, in [0, 1], lies below the target. `weight` is 0 without a label."""
        move = weight * (self.target - error) if answered else self.target
        return min(limit + self.step * move, self.ceiling)


@dataclass(frozen=True, kw_only=True)
class LimitRun:
    """What was done with each of T requests."""

    answered: list[bool]
    thresholds: list[float]
    """[T + 1], before each decision and after the last."""


def threshold_track(
    u: Any, errors: Any, weights: Any, target: Any, step: Any, threshold: Any, ceiling: Any = 1.0
) -> LimitRun:
    """Decide on requests in their order, from the first `threshold` on.

    `u` [T] are scores, None where unknown; `errors` [T] in [0, 1] are read where `weights` [T], 1 / label probability,
    are above 0. Answered with label a, held h: (sum of a's w (e - target) - target per h) / T is at most
    (first - last threshold) / (step T).
    """
    rule = TrackedLimit(target=target, step=step, ceiling=ceiling)
    limits, answered = [real_number("threshold", threshold)], []
    if limits[0] > rule.ceiling:
        raise InvalidInput(f"threshold is {limits[0]}, above its ceiling of {rule.ceiling}")
    scores = known_or_nan("u", u)
    lost, drawn = drawn_values("errors", errors, weights, unit_interval)
    same_length(u=scores, errors=lost)
    if not scores:
        raise InvalidInput("u is empty")
    for score, error, weight in zip(scores, lost, drawn, strict=True):
        answered.append(rule.answers(score, limits[-1]))
        limits.append(rule.next_limit(limits[-1], answered[-1], error, weight))
    return LimitRun(answered=answered, thresholds=limits)
