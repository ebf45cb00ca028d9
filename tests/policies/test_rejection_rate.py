import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from demur.policies.decision import Action
from demur.policies.graded import GradedRows
from demur.policies.rejection_rate import RankedLimit, RejectionRate
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed


def fitted(confidence, scores, rate):
    confidence = np.asarray(confidence, dtype=np.float64)
    return RejectionRate(rate=rate).fit(
        GradedRows.of_one(confidence, np.ones(len(confidence)), score="entropy", scores=np.asarray(scores, dtype=float))
    )


def held(rule, confidence, scores):
    decided = rule.decide(assessed(confidence, entropy=scores))
    return 1 - decided.answered.mean()


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("steps", [1, 3, 300])
def test_the_rate_is_held_however_few_different_confidences_there_are(rate, steps):
    """One, three and hundreds of plateaus, as an isotonic calibrator makes them."""
    scores = np.random.default_rng(0).random(300)
    confidence = np.floor((1 - scores) * steps) / steps
    rule = fitted(confidence, scores, rate)
    assert held(rule, confidence, scores) == pytest.approx(rate)
    assert rule.held == pytest.approx(rate)
    assert rule.remarks == []


@pytest.mark.slow
def test_an_isotonic_calibrator_holds_the_rate_on_new_rows_as_well():
    rates = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        u = rng.random((2, 2_000))
        right = rng.random(2_000) < 1 - u[0] ** 4 / 2
        isotonic = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(u[0], right)
        rule = fitted(isotonic.predict(u[0]), u[0], 0.1)
        assert rule.held == pytest.approx(0.1)
        rates.append(held(rule, isotonic.predict(u[1]), u[1]))
    assert np.mean(rates) == pytest.approx(0.1, abs=0.006)


def test_ties_in_both_are_answered_and_the_fit_says_so():
    rule = fitted([0.9] * 50, [0.2] * 50, 0.1)
    assert held(rule, [0.9] * 50, [0.2] * 50) == 0
    assert rule.remarks == [
        "rejection_rate: 10.00% was asked for, and the limit holds 0.00% of 50 rows: the others tie with rows that are"
        " answered; choose a score with more different values"
    ]


def test_rows_that_no_limit_answers_are_the_first_to_be_held():
    confidence, scores = [np.nan] * 30 + [0.8] * 70, [0.1] * 30 + np.linspace(0, 1, 70).tolist()
    rule = fitted(confidence, scores, 0.4)
    assert held(rule, confidence, scores) == pytest.approx(0.4)
    stopped = fitted(confidence, scores, 0.1)
    assert held(stopped, confidence, scores) == pytest.approx(0.3)
    assert "holds 30.00% of 100 rows: so many are stopped by a gate" in stopped.remarks[0]


@pytest.mark.parametrize(
    ("confidence", "score", "action", "reason"),
    [
        (0.81, 0.9, Action.ANSWER, "confidence 0.81 is at or above 0.80, the limit that held 50.00% of"),
        (0.80, 0.2, Action.ANSWER, "confidence 0.80 is at its limit, and entropy 0.20 is at or below 0.20, the limit"),
        (0.80, 0.3, Action.REVIEW, "confidence 0.80 is at its limit, and entropy 0.30 is above 0.20, the limit that"),
        (0.80, np.nan, Action.REVIEW, "confidence 0.80 is at its limit, and entropy is undefined, and what is"),
        (0.79, 0.0, Action.REVIEW, "confidence 0.79 is below 0.80, the limit that held 50.00% of the calibration"),
        (np.nan, 0.0, Action.REVIEW, "the confidence is unknown, and what is unknown is held"),
    ],
)
def test_decide(confidence, score, action, reason):
    rule = RankedLimit(limit=0.8, score="entropy", score_limit=0.2, asked=0.5, held=0.5, n=10)
    decided = rule.decide(assessed([confidence], entropy=[score]))
    assert decided.actions == (action,)
    assert decided.reasons[0].startswith(reason)
    assert rule.reads == {"entropy"}


def test_an_undefined_score_is_held_at_the_limit_in_the_fit_as_in_service():
    confidence, scores = [0.8] * 10, [0.1] * 4 + [np.nan] * 6
    rule = fitted(confidence, scores, 0.2)
    assert rule.held == pytest.approx(held(rule, confidence, scores))
    assert rule.held == pytest.approx(0.6)


def test_models_of_a_cascade_have_no_common_score():
    one = GradedRows.of_one(np.array([0.5, 0.7]), np.ones(2), score="entropy", scores=np.zeros(2))
    rows = GradedRows.in_turn([one, one])
    assert rows.scores is None
    rule = RejectionRate(rate=0.5).fit(rows)
    assert (rule.score, rule.limit, rule.reads) == (None, 0.7, frozenset())
    assert rule.decide(assessed([0.7, 0.6])).actions == (Action.ANSWER, Action.REVIEW)
    with pytest.raises(InvalidInput, match="no common score"):
        GradedRows(confidence=np.zeros((2, 2)), quality=np.zeros((2, 2)), scores=np.zeros(2))
