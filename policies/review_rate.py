"""Send a fixed share of predictions to review, the least sure: a limit that follows the traffic (METHODS 9.5).

Over a long run the share below the limit comes close to `target`, whatever the traffic does; nothing is promised for a
day, a group or a single prediction.
"""

from dataclasses import dataclass
from math import isnan
from typing import Any

from demur.policies.decision import Action
from demur.policies.stream import confidences
from demur.uncertainty.checks import fraction, real_number


@dataclass(frozen=True, kw_only=True)
class ReviewRate:
    """`target` is a share of predictions, `step` how far the limit moves for one of them."""

    target: float
    step: float

    floor: float = 0.0
    """The least confidence that is ever answered, wherever the limit is. What it holds comes on top of `target`."""

    def __post_init__(self) -> None:
        fraction("target", real_number("target", self.target))
        fraction("floor", real_number("floor", self.floor))
        real_number("step", self.step, above=0)

    def decide(self, confidence: float, threshold: float) -> Action:
        """Answer from the limit on, and from the floor on; what is unknown, NaN, is reviewed."""
        return Action.ANSWER if confidence >= max(threshold, self.floor) else Action.REVIEW

    def next_threshold(self, threshold: float, confidence: float) -> float:
        """The limit after a prediction: down by one that lies below it, else up. What is unknown does not move it."""
        if isnan(confidence):
            return threshold
        return threshold - self.step * ((confidence < threshold) - self.target)


@dataclass(frozen=True, kw_only=True)
class RateRun:
    """What was done with each of T predictions."""

    actions: list[Action]
    thresholds: list[float]
    """[T + 1], before each decision and after the last. They may leave [0, 1] by a step."""

    review_rate: float


def rate_run(confidence: Any, target: Any, step: Any, threshold: Any, floor: Any = 0.0) -> RateRun:
    """Decide on predictions in their order, from the first `threshold` on; `confidence` [T] is None where unknown.

    The share of known confidences below the limit of their moment is within (1 + step) / (step T) of `target`.
    """
    rule = ReviewRate(target=target, step=step, floor=floor)
    actions: list[Action] = []
    thresholds = [fraction("threshold", real_number("threshold", threshold))]
    for sure in confidences(confidence):
        actions.append(rule.decide(sure, thresholds[-1]))
        thresholds.append(rule.next_threshold(thresholds[-1], sure))
    return RateRun(actions=actions, thresholds=thresholds, review_rate=actions.count(Action.REVIEW) / len(actions))
