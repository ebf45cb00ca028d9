import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.cheapest_label import CheapestLabel, CostLimit, LeastCost
from demur.policies.cost import chow_cost_matrix
from demur.policies.decision import Action
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.temperature import TemperatureMap
from tests.policies.conftest import assessed

MISSED_IS_WORSE = ((0.0, 10.0), (1.0, 0.0))
"""Saying the first label where the second is right costs ten times as much as the other way round."""


def predictor(temperature=1.0):
    return CheapestLabel(costs=np.array(MISSED_IS_WORSE), temperature=TemperatureMap(temperature=temperature))


@given(st.floats(0.001, 0.999), st.floats(0, 3))
def test_it_is_the_rule_of_the_catalogue(p, price):
    rows = np.array([[p, 1 - p]])
    (decision,) = chow_cost_matrix(rows, MISSED_IS_WORSE, price)
    assert predictor().of(rows)[0].argmax() == decision.prediction
    cost = predictor().expected_cost(rows)
    assert cost[0] == pytest.approx(decision.expected_cost, abs=1e-9)
    if abs(cost[0] - price) > 1e-9:
        decided = CostLimit(reject_cost=price).decide(assessed([0.5], expected_cost=cost))
        assert decided.answered[0] == decision.accept


def test_the_likely_label_is_not_the_cheap_one():
    assert predictor().of(np.array([[0.8, 0.2], [0.95, 0.05]])).tolist() == [[False, True], [True, False]]


def test_costs_are_those_of_calibrated_probabilities():
    """A model that says 0.99 and is right in eight of ten is not believed."""
    said = np.tile([0.99, 0.01], (100, 1))
    right = (np.arange(100) % 5 == 0)[:, None] == np.array([[False, True]])
    fitted = LeastCost(costs=MISSED_IS_WORSE).fit(said, right)
    assert fitted.expected(said[:1])[0].tolist() == pytest.approx([2.0, 0.8], rel=1e-6)
    assert fitted.of(said[:1]).tolist() == [[False, True]]


@pytest.mark.parametrize(
    ("cost", "confidence", "action", "reason"),
    [
        (0.1, 0.9, Action.ANSWER, "the expected cost of answering, 0.10, is within the price of a review, 0.10"),
        (0.104, 0.9, Action.ABSTAIN, "the expected cost of answering, 0.104, is above the price of a review, 0.100"),
        (0.0, np.nan, Action.ABSTAIN, "the confidence is unknown, and what is unknown is held"),
    ],
)
def test_decide(cost, confidence, action, reason):
    rows = assessed([confidence], expected_cost=[cost])
    decided = CostLimit(reject_cost=0.1, otherwise="abstain").decide(rows)
    assert decided.actions == (action,)
    assert decided.reasons == (reason,)


def test_without_costs_there_is_nothing_to_decide_by():
    with pytest.raises(InvalidInput, match="no costs are given"):
        CostLimit().decide(assessed([0.5]))


@pytest.mark.parametrize("costs", [((0.0, 1.0),), ((0.0, np.nan), (1.0, 0.0)), ()])
def test_a_matrix_is_square_and_of_numbers(costs):
    with pytest.raises(InvalidInput):
        LeastCost(costs=costs)


def test_a_matrix_fits_its_labels():
    with pytest.raises(InvalidInput, match="2 columns for 3 labels"):
        LeastCost(costs=MISSED_IS_WORSE).fit([[0.2, 0.3, 0.5]], [[True, False, False]])
