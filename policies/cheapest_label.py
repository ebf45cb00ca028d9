"""The label that costs least on average, and holding where even that costs more than a review (Chow 1970)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.policies.cost import ROUNDING
from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.limit import UNKNOWN, told_apart
from demur.policies.promise import Promise
from demur.policies.threshold import Otherwise
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, probability_rows, real_number
from demur.uncertainty.temperature import Temperature, TemperatureMap


@dataclass(frozen=True, kw_only=True)
class CheapestLabel:
    """Predicts the label of least expected cost, the first of equals; costs are only as good as probabilities are, so
    these are scaled by a temperature first."""

    costs: Array
    """[C, C]: what predicting a label costs (row) when another is right (column)."""

    temperature: TemperatureMap

    promise: ClassVar[Promise | None] = None

    def expected(self, probabilities: Array) -> Array:
        """[n, C], of predicting each label."""
        return np.asarray(self.temperature.of_classes(_logits(probabilities)) @ self.costs.T)

    def of(self, probabilities: Array) -> Mask:
        costs = self.expected(probabilities)
        first = (costs <= costs.min(axis=1, keepdims=True) + ROUNDING).argmax(axis=1)
        return np.asarray(first[:, None] == np.arange(costs.shape[1]))

    def expected_cost(self, probabilities: Array) -> Array:
        """[n], of what is predicted."""
        return np.asarray(self.expected(probabilities).min(axis=1))


@dataclass(frozen=True, kw_only=True)
class LeastCost:
    """`CheapestLabel` as it is configured, before its temperature is fitted."""

    costs: tuple[tuple[float, ...], ...]

    alpha: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        matrix = finite("matrix", self.costs, ndim=2)
        if matrix.shape[0] != matrix.shape[1]:
            raise InvalidInput(
                f"matrix is {matrix.shape[0]} by {matrix.shape[1]}; it has a row and a column each label"
            )

    def fit(self, probabilities: Any, targets: Any) -> CheapestLabel:
        rows = probability_rows("probabilities", probabilities)
        right = np.asarray(targets).argmax(axis=1).astype(np.float64)
        costs = np.array(self.costs, dtype=np.float64)
        if costs.shape[1] != rows.shape[1]:
            raise InvalidInput(f"matrix has {costs.shape[1]} columns for {rows.shape[1]} labels")
        return CheapestLabel(costs=costs, temperature=Temperature().fit(_logits(rows), right))


@dataclass(frozen=True, kw_only=True)
class CostLimit:
    """`cost` with a `matrix`: answer where the cheapest label costs no more than a review. It promises nothing."""

    reject_cost: float = 0.1
    """The price of a review."""

    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False
    promise: ClassVar[Promise | None] = None
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        real_number("reject_cost", self.reject_cost)

    def fit(self, rows: GradedRows) -> "CostLimit":  # noqa: ARG002 - nothing is learnt
        return self

    def decide(self, assessed: Assessment) -> Decisions:
        if assessed.expected_cost is None:
            raise InvalidInput("the rule acts on expected costs, and no costs are given")
        costs = np.where(np.isnan(assessed.confidence), np.nan, assessed.expected_cost)
        return Decisions.where(
            costs <= self.reject_cost + ROUNDING,
            reasons=[self._reason(cost) for cost in costs.tolist()],
            otherwise=Action(self.otherwise),
        )

    def _reason(self, cost: float) -> str:
        if np.isnan(cost):
            return UNKNOWN
        here, price = told_apart(cost, self.reject_cost)
        relation = "within" if cost <= self.reject_cost + ROUNDING else "above"
        return f"the expected cost of answering, {here}, is {relation} the price of a review, {price}"


def _logits(probabilities: Array) -> Array:
    return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
