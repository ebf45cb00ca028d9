"""Nearly all fitted rows carry the promise of a rule that ranks the score itself."""

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom

from demur.calibration_store.fitting import fit_selectors
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.policies.threshold import PromisedScoreLimit
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES

SCORE = "softmax_response"
SILENT = {"report": lambda *_: {}, "cross_report": lambda *_: {}, "report_share": 0.4}


def recipe(calibrator="isotonic", **settings):
    return SelectorRecipe(
        scores={SCORE: SCORES[SCORE]()},
        confidence_score=SCORE,
        calibrator=CALIBRATORS[calibrator](),
        policy=SelectiveRisk(**settings),
    )


def rows_of(p, right, rng):
    """Return rows whose more probable label has probability `p` [n], and is the true one where `right` [n]."""
    first = rng.random(len(p)) < 0.5
    output = Output.from_logits(np.where(first, -logit(p), logit(p))[:, None])
    return LabelledOutput.of_classes(output, np.where(first == right, 0, 1))


def fitted(of, rows, rng):
    return fit_selectors({"m": of}, {"m": rows}, rng=np.random.default_rng(rng.integers(2**32)), **SILENT)


@pytest.mark.parametrize("calibrator", ["isotonic", "platt", "beta"])
def test_the_limit_is_one_of_the_score_and_the_calibrator_has_no_part_in_it(calibrator):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 600)
    rows = rows_of(p, rng.random(600) < p, rng)
    found = [
        fit_selectors({"m": recipe(one, max_risk=0.2)}, {"m": rows}, rng=np.random.default_rng(1), **SILENT)
        for one in ("isotonic", calibrator)
    ]
    rules = [one.selector.policy for one in found]
    assert isinstance(rules[0], PromisedScoreLimit)
    assert rules[0] == rules[1]
    assert rules[0].promise.n == 360  # all that were not kept for the report
    decided = found[0].selector.decide(rows.output)
    answered = decided.decisions.answered
    assert 0 < answered.mean() < 1
    assert (answered == (decided.scores[SCORE] <= rules[0].limit)).all()
    held = decided.decisions.reasons[int(np.flatnonzero(~answered)[0])]
    assert "is above" in held
    assert "the limit for at most 20.00% wrong answers, except with probability 5%" in held


def test_confidence_that_may_rise_with_the_score_is_ranked_on_rows_of_its_own():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, 600)
    rows = rows_of(p, rng.random(600) < p, rng)
    for calibrator in ("histogram_binning", "temperature"):
        promise = fitted(recipe(calibrator, max_risk=0.3), rows, rng).selector.policy.promise
        assert promise.n == 240, calibrator


@pytest.mark.slow
def test_the_promise_is_kept_by_a_score_at_chance_whose_risk_is_just_above_the_target():
    """The worst case: every limit that answers anything breaks the promise, and the calibrator saw the same rows."""
    max_risk, delta, draws = 0.3, 0.2, 200
    rng, broken = np.random.default_rng(3), 0
    for _ in range(draws):
        rows = rows_of(rng.uniform(0.5, 1, 400), rng.random(400) > max_risk + 0.001, rng)
        broken += fitted(recipe(max_risk=max_risk, delta=delta), rows, rng).selector.policy.promise.feasible
    assert broken <= binom.ppf(0.999, draws, delta)


@pytest.mark.long
@pytest.mark.parametrize(("n", "feasible", "coverage"), [(1_000, 0.02, 0.005), (3_000, 0.65, 0.15)])
def test_an_overconfident_model_is_answered_more_often_and_the_promise_is_kept(n, feasible, coverage):
    """At most 5% wrong, except with probability 10%. With half of the fitted rows for the calibrator 0 to 5% of fits
    could promise it from 1,000 labels, and a third from 3,000, where they answered 8%."""
    draws, rng = 150, np.random.default_rng(1)

    def drawn(n):
        p = 1 - 0.5 * rng.beta(1, 5, size=n)
        return p, rows_of(p, rng.random(n) < p**2, rng)

    p, traffic = drawn(20_000)
    answered = []
    for _ in range(draws):
        fit = fitted(recipe(max_risk=0.05, delta=0.1), drawn(n)[1], rng)
        answered.append(fit.selector.decide(traffic.output).decisions.answered)
    able = [one for one in answered if one.any()]
    broken = sum(np.mean(1 - p[one] ** 2) > 0.05 for one in able)
    assert len(able) / draws > feasible
    assert np.mean([one.mean() for one in answered]) > coverage
    assert broken <= binom.ppf(0.999, draws, 0.1)
