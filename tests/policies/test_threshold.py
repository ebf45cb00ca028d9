import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.policies.decision import Action
from demur.policies.limit import told_apart
from demur.policies.rejection_rate import RejectionRate
from demur.policies.threshold import (
    GivenLimit,
    TargetRisk,
    Threshold,
    threshold_at_rejection_rate,
    threshold_at_target_risk,
)
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed, graded


@pytest.mark.parametrize(
    ("confidence", "action"),
    [
        (0.93, Action.ANSWER),  # the limit itself is still answered
        (0.931, Action.ANSWER),
        (0.929, Action.REVIEW),
        (float("nan"), Action.REVIEW),  # unknown is never safe
    ],
)
def test_decide(confidence, action):
    decisions = Threshold(limit=0.93, meaning="a limit").decide(assessed([confidence]))
    assert decisions.actions[0] is action


def test_held_predictions_may_be_left_unreviewed():
    decisions = GivenLimit(limit=0.5, otherwise="abstain").fit(graded([], [])).decide(assessed([0.4]))
    assert decisions.actions == (Action.ABSTAIN,)


def test_an_infinite_limit_answers_nothing():
    decisions = Threshold(limit=np.inf, meaning="nothing was safe").decide(assessed([1.0]))
    assert decisions.actions == (Action.REVIEW,)
    assert decisions.reasons == ("no confidence is enough: nothing was safe",)


def test_the_reason_never_says_that_a_number_is_below_itself():
    reason = Threshold(limit=0.93, meaning="the limit").decide(assessed([0.9296])).reasons[0]
    assert reason == "confidence 0.9296 is below 0.9300, the limit"


@given(st.floats(0, 1), st.floats(0, 1))
def test_two_different_numbers_are_written_differently(a, b):
    left, right = told_apart(a, b)
    assert (left == right) == (a == b)


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3, 0.4, 0.5]), st.integers(0, 1)), min_size=1, max_size=30),
    st.floats(0, 1),
)
def test_the_target_risk_is_kept_on_the_fitted_rows_and_no_larger_limit_keeps_it(rows, target):
    u, errors = np.array(rows, dtype=np.float64).T
    found = threshold_at_target_risk(u, errors, target)
    accepted = u <= found.threshold
    assert found.coverage == pytest.approx(accepted.mean())
    if accepted.any():
        assert errors[accepted].mean() <= target + 1e-9
    for larger in np.unique(u[u > found.threshold]):
        assert errors[u <= larger].mean() > target


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30), st.floats(0, 1))
def test_the_review_budget_is_never_exceeded(u, rate):
    found = threshold_at_rejection_rate(u, rate)
    assert found.n_rejected <= np.ceil(rate * len(u) - 1e-9)
    strict = threshold_at_rejection_rate(u, rate, ties="reject")
    assert strict.n_rejected >= np.ceil(rate * len(u) - 1e-9)


def test_a_target_that_cannot_be_met_holds_everything_and_says_so():
    fitted = TargetRisk(max_risk=0.1).fit(graded([0.9, 0.8], [0.0, 1.0]))
    decisions = fitted.decide(assessed([0.99]))
    assert decisions.actions == (Action.REVIEW,)
    assert "no limit kept wrong answers within 10.00%" in decisions.reasons[0]


def test_the_fitted_limit_is_one_of_the_confidences_exactly():
    confidence = np.array([0.93, 0.1 + 0.2, 0.7])
    fitted = RejectionRate(rate=0.3).fit(graded(confidence, np.ones(3)))
    assert fitted.limit in confidence.tolist()  # 1 - (1 - c) would not be


@pytest.mark.parametrize("settings", [{"limit": 1.5}, {"limit": float("nan")}])
def test_a_limit_is_a_confidence(settings):
    with pytest.raises(InvalidInput):
        GivenLimit(**settings)


@pytest.mark.parametrize(
    ("value", "confidence", "action", "reason"),
    [
        (2.0, 0.1, Action.ANSWER, "strange 2.00 is at or below 2.00, the limit in the configuration"),
        (2.01, 0.9, Action.REVIEW, "strange 2.01 is above 2.00, the limit in the configuration"),
        (float("nan"), 0.9, Action.REVIEW, "strange is undefined, and what is unknown is held"),
        (1.0, float("nan"), Action.REVIEW, "the confidence is unknown, and what is unknown is held"),
    ],
)
def test_a_limit_may_be_one_of_any_score(value, confidence, action, reason):
    rule = GivenLimit(score="strange", limit=2).fit(graded([], []))
    decisions = rule.decide(assessed([confidence], strange=[value]))
    assert decisions.actions == (action,)
    assert decisions.reasons == (reason,)
