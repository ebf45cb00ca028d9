import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.cost import ChowRule, chow, chow_cost_matrix, chow_threshold
from demur.policies.decision import Action
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed, graded


@pytest.mark.parametrize(
    ("costs", "threshold"),
    [
        ({}, 0.9),
        ({"reject_cost": 0.0}, 1.0),
        ({"reject_cost": 1.0}, 0.0),
        ({"reject_cost": 3.0}, -2.0),  # holding costs more than being wrong
        ({"error_cost": 10.0, "reject_cost": 1.0}, 0.9),
        ({"error_cost": 1.0, "reject_cost": 0.5, "correct_cost": 0.5}, 1.0),
        ({"error_cost": 1.0, "reject_cost": -0.5, "correct_cost": -1.0}, 0.75),  # a right answer earns
    ],
)
def test_threshold(costs, threshold):
    assert chow_threshold(**costs) == pytest.approx(threshold)


@pytest.mark.parametrize(
    "costs",
    [
        {"correct_cost": 0.2},  # above reject
        {"error_cost": 0.0},
        {"error_cost": 0.1, "reject_cost": 0.2, "correct_cost": 0.15},
        {"error_cost": float("inf")},
        {"reject_cost": None},
    ],
)
def test_costs_that_make_no_sense(costs):
    for function in (chow_threshold, ChowRule):
        with pytest.raises(InvalidInput):
            function(**costs)
    with pytest.raises(InvalidInput):
        chow([[0.5, 0.5]], **costs)


@pytest.mark.parametrize("reject", [0.1, 0.2, 0.3, 0.35, 0.4])
def test_equal_costs_answer_in_spite_of_rounding(reject):
    probs = [[1 - reject, reject], [reject / 2, 1 - reject / 2], [1 - reject - 1e-6, reject + 1e-6]]
    accepted = [decision.accept for decision in chow(probs, reject_cost=reject)]
    assert accepted == [True, True, False]
    matrix = chow_cost_matrix(probs, [[0, 1], [1, 0]], reject)
    assert [decision.accept for decision in matrix] == accepted


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 10), min_size=3, max_size=3).filter(any), min_size=1, max_size=10),
    st.sampled_from([0.1, 0.25, 0.3, 0.5]),
)
def test_chow_is_the_cost_matrix_of_zeros_and_ones(counts, reject):
    probs = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    simple, matrix = chow(probs, reject_cost=reject), chow_cost_matrix(probs, 1 - np.eye(3), reject)
    for a, b in zip(simple, matrix, strict=True):
        assert (a.accept, a.prediction) == (b.accept, b.prediction)
        assert a.expected_cost == pytest.approx(b.expected_cost)


def test_actions_need_not_be_classes_and_the_first_of_equals_is_taken():
    decision = chow_cost_matrix([[0.3, 0.7]], [[1, 0.3], [0, 0.73], [0.51, 0.51]], 0.6)[0]
    assert (decision.accept, decision.prediction) == (True, 0)
    assert chow_cost_matrix([[0.1, 0.9]], [[0.3, 0.3], [3.0, 0.0]], 0.6)[0].prediction == 0  # 0.3 and 3 * 0.1


@pytest.mark.parametrize(
    ("probs", "cost"),
    [([[0.5, 0.6]], [[0, 1], [1, 0]]), ([[0.5, 0.5]], [[0, 1, 2]]), ([[0.5, 0.5]], [0, 1]), ([], [[0, 1]])],
)
def test_bad_matrices(probs, cost):
    with pytest.raises(InvalidInput):
        chow_cost_matrix(probs, cost, 0.1)


def test_the_rule_needs_no_data_and_says_what_the_limit_is():
    fitted = ChowRule(error_cost=10, reject_cost=3).fit(graded([], []))
    decisions = fitted.decide(assessed([0.7, 0.69, np.nan]))
    assert decisions.actions == (Action.ANSWER, Action.REVIEW, Action.REVIEW)
    assert decisions.reasons[1] == (
        "confidence 0.69 is below 0.70, where answering, at 10 if wrong and 0 if right, costs as much as holding, at 3"
    )


def test_where_holding_costs_more_than_an_error_everything_known_is_answered():
    decisions = ChowRule(reject_cost=2, otherwise="abstain").fit(graded([], [])).decide(assessed([0, np.nan]))
    assert decisions.actions == (Action.ANSWER, Action.ABSTAIN)
