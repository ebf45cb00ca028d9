import numpy as np
import pytest
from scipy.stats import binom

from demur.policies.all_of import AllOf, Gated, InDistribution, Parsable, SmallSet, fitted_gates, passing
from demur.policies.decision import Action
from demur.policies.graded import GradedRows
from demur.policies.rejection_rate import RejectionRate
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.threshold import GivenLimit, ScoreGate, Threshold
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed

RULE = Threshold(limit=0.5, meaning="the limit")
NAN = float("nan")


@pytest.mark.parametrize(
    ("strange", "size", "confidence", "action", "reason"),
    [
        (1.0, 1, 0.9, Action.ANSWER, "confidence 0.90 is at or above"),
        (2.0, 1, 0.9, Action.ANSWER, "confidence"),  # the limit itself passes
        (2.1, 1, 0.9, Action.ABSTAIN, "strange 2.1 is above 2.0, the limit in the configuration"),
        (2.1, 3, 0.1, Action.ABSTAIN, "strange 2.1"),  # the first gate that stops it gives the reason
        (NAN, 1, 0.9, Action.ABSTAIN, "strange is undefined, and what is unknown is held"),
        (1.0, 2, 0.9, Action.REVIEW, "2 labels cannot be ruled out at 1% error; at most 1 may be"),
        (1.0, 1, 0.4, Action.REVIEW, "confidence 0.40 is below 0.50"),
        (1.0, 1, NAN, Action.REVIEW, "the model's reply could not be read"),
    ],
)
def test_all_must_agree(strange, size, confidence, action, reason):
    gates = [
        InDistribution(score="strange", max=2.0, otherwise="abstain").fit(assessed([0.5])),
        SmallSet(at_most=1),
        Parsable(),
    ]
    decided = Gated(gates=gates, rule=RULE).decide(assessed([confidence], sizes=[size], strange=[strange]))
    assert decided.actions == (action,)
    assert decided.reasons[0].replace("2.10", "2.1").replace("2.00", "2.0").startswith(reason)


def test_a_small_set_without_the_prediction_is_stopped():
    rows = assessed([0.9], sizes=[1], in_set=[False])
    decided = Gated(gates=[SmallSet()], rule=RULE).decide(rows)
    assert decided.reasons == ("what is predicted is ruled out at 1% error",)
    assert not decided.answered.any()


def test_what_becomes_of_a_reply_that_cannot_be_read_is_configured():
    rule = GivenLimit(limit=0.5, otherwise="review")
    assert AllOf(gates=(SmallSet(),), rule=rule).otherwise == "review"
    assert AllOf(gates=(Parsable(otherwise="abstain"),), rule=rule).otherwise == "abstain"
    assert Gated(gates=[Parsable(otherwise="abstain")], rule=RULE).otherwise == "abstain"


def test_the_quantile_of_a_gate_is_an_order_statistic():
    rows = assessed(np.full(99, 0.9), strange=np.arange(1, 100))
    (gate,) = fitted_gates(
        AllOf(gates=(InDistribution(score="strange", quantile=0.9),), rule=GivenLimit(limit=0)), rows
    )
    assert gate == ScoreGate(
        score="strange", limit=90.0, meaning="which at least 90% of the calibration data do not exceed"
    )
    assert passing([gate], rows).sum() == 90
    few = InDistribution(score="strange", quantile=0.99).fit(assessed([0.9], strange=[1.0]))
    assert few.limit == np.inf  # one row knows no 99% quantile, and stops nothing


@pytest.mark.parametrize("settings", [{}, {"quantile": 0.9, "max": 3.0}, {"quantile": 1.0}, {"max": NAN}])
def test_a_gate_has_one_limit(settings):
    with pytest.raises(InvalidInput):
        InDistribution(score="strange", **settings)


def test_what_a_gate_stops_counts_among_the_held():
    shut = GradedRows.of_one(np.array([np.nan, np.nan, 0.2, 0.8]), np.ones(4))
    assert RejectionRate(rate=0.5).fit(shut).limit == 0.2
    assert RejectionRate(rate=0.75).fit(shut).limit == 0.8


@pytest.mark.parametrize("method", ["sgr", "ltt"])
def test_the_promise_of_a_rule_behind_gates_is_about_what_is_answered_in_the_end(method):
    """Strange inputs, half of them, are wrong half of the time however sure the model is; a gate stops nine in ten.

    Of the others an answer of confidence c is wrong with probability 1 - c. What passes the gate is a mix of both.
    """
    rng = np.random.default_rng(4)
    max_risk = 0.2
    recipe = AllOf(
        gates=(InDistribution(score="strange", quantile=0.5),),
        rule=SelectiveRisk(max_risk=max_risk, delta=0.2, method=method, limits=tuple(np.arange(50, 100, 2) / 100)),
    )

    def draw(n):
        strange = rng.random(n) < 0.5
        score = strange + rng.normal(size=n) / 3
        confidence = rng.uniform(0.5, 1, size=n)
        wrong = rng.random(n) < np.where(strange, 0.5, 1 - confidence)
        return assessed(confidence, strange=score), 1.0 - wrong

    fresh, right = draw(100_000)
    answering = broken = naive = 0
    for _ in range(120):
        before, _ = draw(400)
        rows, quality = draw(1500)
        gates = fitted_gates(recipe, before)
        seen = np.where(passing(gates, rows), rows.confidence, np.nan)
        answered = passing(gates, fresh) & (fresh.confidence >= recipe.rule.fit(GradedRows.of_one(seen, quality)).limit)
        if answered.any():
            answering += 1
            broken += 1 - right[answered].mean() > max_risk
        naive += np.isfinite(recipe.rule.fit(GradedRows.of_one(rows.confidence, quality)).limit)
    assert answering > 100  # else it would be kept by silence
    assert broken <= binom.ppf(0.9999, 120, 0.2)
    assert naive <= 5  # without the gate hardly anything can be promised: the promise rests on it
