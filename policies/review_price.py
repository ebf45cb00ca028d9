"""Send to review what is worth its price, and let the price of reviewers' time follow their capacity (METHODS 9.5).

Over a long run the share that is reviewed stays within `capacity`, whatever the traffic does; nothing is promised for
a day, a group or a single prediction. Dual ascent; as capacity-aware deferral in Lykouris & Weng (2024).
"""

from dataclasses import dataclass
from math import isnan
from typing import Any

from demur.policies.decision import Action
from demur.policies.stream import confidences
from demur.uncertainty.checks import InvalidInput, fraction, real_number


@dataclass(frozen=True, kw_only=True)
class ReviewPrice:
    """Costs are in one unit, and so is the price; `capacity` is a share of all predictions."""

    capacity: float
    step: float
    error_cost: float = 1.0
    review_cost: float = 0.1

    floor: float = 0.0
    """The least confidence that is ever answered. It comes from the promise and does not move with the price: what
    scarce capacity leaves unreviewed below it is abstained from."""

    def __post_init__(self) -> None:
        fraction("capacity", real_number("capacity", self.capacity))
        fraction("floor", real_number("floor", self.floor))
        real_number("step", self.step, above=0)
        real_number("error_cost", self.error_cost)
        if real_number("review_cost", self.review_cost, least=0) >= self.error_cost:
            raise InvalidInput(
                f"review_cost is {self.review_cost}, and error_cost {self.error_cost}: a review must cost less"
            )

    def decide(self, confidence: float, price: float) -> Action:
        """Review where the expected cost of an error is above that of a review. A confidence that is unknown, NaN,
        counts as 0 and is never answered."""
        known = not isnan(confidence)
        sure = confidence if known else 0.0
        if self.error_cost * (1 - sure) > self.review_cost + price:
            return Action.REVIEW
        return Action.ANSWER if known and sure >= self.floor else Action.ABSTAIN

    def next_price(self, price: float, action: Action) -> float:
        """The price after a decision: up by a review, else down, and never below 0."""
        return max(0.0, price + self.step * ((action is Action.REVIEW) - self.capacity))


@dataclass(frozen=True, kw_only=True)
class PriceRun:
    """What was done with each of T predictions."""

    actions: list[Action]
    prices: list[float]
    """[T + 1], before each decision and after the last."""

    review_rate: float


def price_run(
    confidence: Any,
    capacity: Any,
    step: Any,
    error_cost: Any = 1.0,
    review_cost: Any = 0.1,
    floor: Any = 0.0,
    price: Any = 0.0,
) -> PriceRun:
    """Decide on predictions in their order, from the first `price` on; `confidence` [T] is None where it is unknown.

    From price 0, at most capacity + (error_cost - review_cost + step) / (step T) of T are reviewed.
    """
    rule = ReviewPrice(capacity=capacity, step=step, error_cost=error_cost, review_cost=review_cost, floor=floor)
    actions: list[Action] = []
    prices = [real_number("price", price, least=0)]
    for sure in confidences(confidence):
        actions.append(rule.decide(sure, prices[-1]))
        prices.append(rule.next_price(prices[-1], actions[-1]))
    return PriceRun(actions=actions, prices=prices, review_rate=actions.count(Action.REVIEW) / len(actions))
