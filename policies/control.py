"""A value that follows a stream of predictions and steers what becomes of them (METHODS 9.5).

Every control works over the decision of an artifact: whatever the artifact does not answer is never answered. What is
said of a control is said of the long run, whatever the stream does; nothing is promised for a day, a group or a single
prediction. State is plain numbers, handed in and handed back.
"""

from dataclasses import dataclass
from math import inf, isnan
from typing import ClassVar

from demur.policies.decision import Action
from demur.policies.limit import told_apart
from demur.policies.review_price import ReviewPrice
from demur.policies.review_rate import ReviewRate
from demur.policies.tracked_limit import TrackedLimit
from demur.uncertainty.checks import InvalidInput, fraction, real_number


@dataclass(frozen=True, slots=True)
class ControlledValue:
    """Where a controlled value stands, and what came of it."""

    start: float
    """The value before the first prediction that counts here."""

    value: float
    n: int = 0
    """Predictions that the average is over."""

    total: float = 0.0
    """What is averaged, summed over them."""

    @classmethod
    def at(cls, value: float) -> "ControlledValue":
        return cls(value, value)

    @property
    def average(self) -> float:
        """NaN before the first prediction."""
        return self.total / self.n if self.n else float("nan")

    def counted(self, value: float, total: float, *, n: int = 1) -> "ControlledValue":
        """After `n` more predictions that add `total`."""
        return ControlledValue(self.start, value, self.n + n, self.total + total)


@dataclass(frozen=True, slots=True)
class ControlledAction:
    """What becomes of a prediction under a control."""

    action: Action
    note: str
    """Names the control and its present value; to be read after the reason of the artifact."""


@dataclass(frozen=True, kw_only=True)
class PricedReviews:
    """A price for the time of reviewers: `policies/review_price.py`. The average is the share sent to review."""

    rule: ReviewPrice
    kind: ClassVar[str] = "review_price"

    def steer(self, action: Action, confidence: float, price: float) -> ControlledAction:
        """`action` is the artifact's. What it answers is answered or reviewed, what it holds is reviewed or abstained
        from, and what it abstains from stays so. An unknown confidence, NaN, counts as 0."""
        sure = 0.0 if isnan(confidence) else confidence
        wanted = self.rule.decide(confidence, price)
        loss, cost = told_apart(self.rule.error_cost * (1 - sure), self.rule.review_cost + price)
        worth = wanted is Action.REVIEW
        if action is Action.ABSTAIN:
            taken = Action.ABSTAIN
        elif worth:
            taken = Action.REVIEW
        else:
            taken = Action.ANSWER if action is Action.ANSWER and wanted is Action.ANSWER else Action.ABSTAIN
        note = (
            f"{self.kind}: an error would cost {loss} on average, {'more' if worth else 'not more'} than a review at"
            f" {cost}, of which {price:.3g} is the present price of reviewers' time"
        )
        return ControlledAction(taken, note)

    def moved(self, course: ControlledValue, steered: Action, confidence: float) -> ControlledValue:  # noqa: ARG002 - others read it
        """After a decision: up by a review, else down."""
        return course.counted(self.rule.next_price(course.value, steered), float(steered is Action.REVIEW))

    def reach(self, course: ControlledValue) -> tuple[float, float]:
        """Between which ends the average lies after so many predictions, whatever they were."""
        if not course.n:
            return 0.0, 1.0
        top = max(course.start, self.rule.error_cost - self.rule.review_cost + self.rule.step)
        return 0.0, min(1.0, self.rule.capacity + (top - course.start) / (self.rule.step * course.n))


@dataclass(frozen=True, kw_only=True)
class TrackedRate:
    """A limit on confidence that follows the traffic: `policies/review_rate.py`. The average is the share of known
    confidences below the limit of their moment; what the artifact holds above it comes on top."""

    rule: ReviewRate
    kind: ClassVar[str] = "review_rate"

    def steer(self, action: Action, confidence: float, limit: float) -> ControlledAction:
        """`action` is the artifact's. What it answers is answered or reviewed; anything else stays as it is."""
        taken = self.rule.decide(confidence, limit) if action is Action.ANSWER else action
        if isnan(confidence):
            return ControlledAction(taken, f"{self.kind}: the confidence is unknown; the present limit is {limit:.3g}")
        here, there = told_apart(confidence, limit)
        side = "below" if confidence < limit else "not below"
        return ControlledAction(
            taken, f"{self.kind}: confidence {here} is {side} {there}, the present limit for {self.rule.target:.3g}"
            " of the stream"
        )  # fmt: skip

    def moved(self, course: ControlledValue, steered: Action, confidence: float) -> ControlledValue:  # noqa: ARG002 - others read it
        """After a decision. An unknown confidence, NaN, moves nothing."""
        if isnan(confidence):
            return course
        return course.counted(self.rule.next_threshold(course.value, confidence), float(confidence < course.value))

    def reach(self, course: ControlledValue) -> tuple[float, float]:
        """Between which ends the average lies after so many predictions, whatever they were."""
        return _around(self.rule.target, course.n, 1 + self.rule.step, self.rule.step)


@dataclass(frozen=True, kw_only=True)
class TrackedRisk:
    """A limit on 1 - confidence that follows the drawn labels of answers: `policies/tracked_limit.py`.

    The average estimates the joint risk, answered and wrong per request: the target, and how far weighted errors of
    drawn answers, less the target, and the target for each held request, come above it.
    """

    rule: TrackedLimit
    least: float
    """The least probability of a label, declared in advance."""

    kind: ClassVar[str] = "tracked_limit"

    def __post_init__(self) -> None:
        fraction("least", real_number("least", self.least), open_low=True)

    def steer(self, action: Action, confidence: float, limit: float) -> ControlledAction:
        """`action` is the artifact's. What it answers is answered up to the limit; anything else stays as it is."""
        u = 1 - confidence
        answers = self.rule.answers(u, limit)
        taken = Action.REVIEW if action is Action.ANSWER and not answers else action
        if isnan(u):
            return ControlledAction(
                taken, f"{self.kind}: the confidence is unknown; the present limit is {1 - limit:.3g}"
            )
        here, there = told_apart(confidence, 1 - limit)
        return ControlledAction(
            taken, f"{self.kind}: confidence {here} is {'at or above' if answers else 'below'} {there}, the present"
            f" limit for errors in {self.rule.target:.3g} of all requests"
        )  # fmt: skip

    def after_request(self, course: ControlledValue, answered: bool) -> ControlledValue:
        """After a request became known: one that was not answered moves the limit, an answer only with its label."""
        if answered:
            return course.counted(course.value, self.rule.target)
        return course.counted(self.rule.next_limit(course.value, False), 0.0)

    def after_label(self, course: ControlledValue, error: float, weight: float) -> ControlledValue:
        """After the label of an answer: `error` in [0, 1], and `weight` is 1 / the probability of that label."""
        moved = self.rule.next_limit(course.value, True, error, weight)
        return course.counted(moved, weight * (error - self.rule.target), n=0)

    def reach(self, course: ControlledValue) -> tuple[float, float]:
        """Up to which end the average lies after so many requests, whatever they were: there is no lower one. The limit
        falls no further than one label moves it below 0, where nothing is answered; where late labels have moved it
        further, it is where it is."""
        if not course.n:
            return -inf, inf
        lowest = min(course.value, -self.rule.step * (1 - self.rule.target) / self.least)
        return -inf, self.rule.target + (course.start - lowest) / (self.rule.step * course.n)


@dataclass(frozen=True, kw_only=True)
class AdaptiveLevel:
    """The error level of prediction sets, moved by their misses among drawn labels (`policies/adaptive.py`, ACI).

    The average estimates the share of sets that miss, over all requests.
    """

    alpha: float
    step: float
    least: float
    """The least probability of a label, declared in advance."""

    kind: ClassVar[str] = "adaptive_sets"

    def __post_init__(self) -> None:
        fraction("alpha", real_number("alpha", self.alpha), open_low=True, open_high=True)
        real_number("step", self.step, above=0)
        fraction("least", real_number("least", self.least), open_low=True)

    def after_request(self, course: ControlledValue) -> ControlledValue:
        """After a request became known: without its label it moves nothing."""
        return course.counted(course.value, self.alpha)

    def after_label(self, course: ControlledValue, miss: float, weight: float) -> ControlledValue:
        """After the label of a request: 1 where its set missed the truth, and `weight` is 1 / that label's
        probability."""
        if miss not in (0, 1):
            raise InvalidInput(f"miss is {miss}, neither 0 nor 1")
        moved = course.value + self.step * weight * (self.alpha - miss)
        return course.counted(moved, weight * (miss - self.alpha), n=0)

    def reach(self, course: ControlledValue) -> tuple[float, float]:
        """Between which ends the average lies after so many predictions, where each label came before the next
        prediction. Labels under way can each move the level once more."""
        return _around(self.alpha, course.n, 1 + self.step / self.least, self.step)


ByDecisions = PricedReviews | TrackedRate
"""Moved by each decision."""

ByLabels = TrackedRisk | AdaptiveLevel
"""Moved by labels as they become known."""

Control = ByDecisions | ByLabels


def _around(target: float, n: int, width: float, step: float) -> tuple[float, float]:
    if not n:
        return 0.0, 1.0
    slack = width / (step * n)
    return max(0.0, target - slack), min(1.0, target + slack)
