"""Answer where that costs less, on average, than holding (Chow 1970). Only as good as the probabilities: calibrate."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.policies.graded import GradedRows
from demur.policies.threshold import Otherwise, Threshold
from demur.uncertainty.checks import Array, InvalidInput, finite, probability_rows, real_number

ROUNDING = 1e-12
"""Costs that differ by less are equal; equal costs answer."""


@dataclass(frozen=True, kw_only=True)
class CostDecision:
    """One row: the label or action with the least cost, and whether to act on it."""

    accept: bool
    prediction: int
    expected_cost: float
    """Of acting on `prediction`."""


def chow_threshold(*, error_cost: float = 1.0, reject_cost: float = 0.1, correct_cost: float = 0.0) -> float:
    """Return the probability of being right at which answering costs as much as holding; 0 or less: never hold."""
    error, reject, correct = (
        real_number("error_cost", error_cost),
        real_number("reject_cost", reject_cost),
        real_number("correct_cost", correct_cost),
    )
    if correct > reject:
        raise InvalidInput(f"correct_cost {correct} is above reject_cost {reject}: holding would always be better")
    if correct >= error:
        raise InvalidInput(f"correct_cost {correct} is not below error_cost {error}: being wrong would cost nothing")
    return (error - reject) / (error - correct)


def chow(
    probs: Any, *, error_cost: float = 1.0, reject_cost: float = 0.1, correct_cost: float = 0.0
) -> list[CostDecision]:
    """Accept the most probable label of each row of `probs` [n, C] iff its probability reaches `chow_threshold`."""
    rows = probability_rows("probs", probs)
    threshold = chow_threshold(error_cost=error_cost, reject_cost=reject_cost, correct_cost=correct_cost)
    best, surest = rows.argmax(axis=1), rows.max(axis=1)
    return [
        CostDecision(
            accept=bool(p >= threshold - ROUNDING),
            prediction=int(label),
            expected_cost=float(error_cost - (error_cost - correct_cost) * p),
        )
        for label, p in zip(best, surest, strict=True)
    ]


def chow_cost_matrix(probs: Any, cost: Any, reject_cost: float) -> list[CostDecision]:
    """Choose for each row of `probs` [n, C] the action with the least expected cost; accept iff within `reject_cost`.

    `cost` [A, C] is what each action costs when each class is the truth. Of equally good actions the first is taken.
    """
    rows, costs = probability_rows("probs", probs), finite("cost", cost, ndim=2)
    if costs.shape[1] != rows.shape[1]:
        raise InvalidInput(f"cost has {costs.shape[1]} columns for {rows.shape[1]} classes")
    limit = real_number("reject_cost", reject_cost)
    expected: Array = rows @ costs.T
    least = expected.min(axis=1, keepdims=True)
    first = (expected <= least + ROUNDING).argmax(axis=1)
    return [
        CostDecision(accept=bool(value <= limit + ROUNDING), prediction=int(action), expected_cost=float(value))
        for action, value in zip(first, expected[np.arange(len(rows)), first], strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class ChowRule:
    """`cost`: the limit at which answering costs as much as holding, at the price of a review. Needs no data, and
    promises nothing."""

    error_cost: float = 1.0
    reject_cost: float = 0.1
    """The price of a review."""

    correct_cost: float = 0.0
    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        self._limit()

    def fit(self, rows: GradedRows) -> Threshold:  # noqa: ARG002 - nothing is learnt
        meaning = (
            f"where answering, at {self.error_cost:g} if wrong and {self.correct_cost:g} if right,"
            f" costs as much as holding, at {self.reject_cost:g}"
        )
        return Threshold(limit=self._limit(), meaning=meaning, otherwise=self.otherwise)

    def _limit(self) -> float:
        limit = chow_threshold(error_cost=self.error_cost, reject_cost=self.reject_cost, correct_cost=self.correct_cost)
        return max(0.0, round(limit, 12))  # so that a confidence of 0.7 meets a limit of 0.7000000000000001
