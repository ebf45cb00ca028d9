from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import binom

from demur.policies.cascade import last_words
from demur.policies.decision import Action
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import FitSplit, SelectorRecipe, fit_in_turn
from demur.policies.threshold import GivenLimit, TargetRisk
from demur.uncertainty.calibrators import CALIBRATORS
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import SCORES


def recipe(policy, **changes):
    return SelectorRecipe(
        scores={"softmax_response": SCORES["softmax_response"]()},
        confidence_score="softmax_response",
        calibrator=CALIBRATORS["isotonic"](),
        policy=policy,
        **changes,
    )


def draw(rng, n, sharpness):
    """A label of two, and what models of this sharpness say: the sharper, the nearer to the truth."""
    truth = rng.integers(2, size=n)
    rows = []
    for sharp in sharpness:
        p = np.clip(rng.beta(2 * sharp, 2, size=n), 0.001, 0.999)  # given to the right label
        second = np.where(truth == 1, p, 1 - p)
        rows.append(LabelledOutput.of_classes(Output.from_logits(logit(second)[:, None]), truth))
    return rows


def parts(rows, half):
    first, second = rows.rows(np.arange(half)), rows.rows(np.arange(half, len(rows)))
    return FitSplit(statistics=first, mixing=first, calibration=first, rule=second)


@pytest.fixture
def two():
    """A small and a large model, fitted as a cascade, and fresh rows."""
    rng = np.random.default_rng(0)
    names = ("small", "large")
    rows = dict(zip(names, draw(rng, 2000, (1.5, 4)), strict=True))
    recipes = {"small": recipe(TargetRisk(max_risk=0.1)), "large": recipe(GivenLimit(limit=0.0))}
    fitted = fit_in_turn(recipes, {name: parts(rows[name], 1000) for name in names})
    return dict(zip(names, fitted, strict=True)), dict(zip(names, draw(rng, 4000, (1.5, 4)), strict=True))


def test_what_the_first_does_not_answer_the_second_is_asked(two):
    selectors, fresh = two
    judged = {name: selectors[name].decide(fresh[name].output) for name in selectors}
    assert selectors["small"].asks_next == "large"
    assert selectors["large"].asks_next == ""
    assert set(judged["small"].decisions.actions) == {Action.ANSWER, Action.ESCALATE}
    assert set(judged["large"].decisions.actions) == {Action.ANSWER, Action.REVIEW}
    ended = last_words(judged)
    for row in range(50):
        by = "large" if judged["small"].decisions.actions[row] is Action.ESCALATE else "small"
        assert ended.by[row] == (by == "large")
        assert ended.judgement.decisions.actions[row] is judged[by].decisions.actions[row]
        assert ended.judgement.confidence[row] == judged[by].confidence[row]


def test_one_limit_holds_for_both_and_the_rule_is_that_of_the_first(two):
    selectors, _ = two
    assert selectors["small"].policy.limit == selectors["large"].policy.limit > 0.5


def test_an_output_that_is_not_a_number_goes_on_to_the_next_model_and_from_the_last_to_a_person(two):
    selectors, _ = two
    nothing = Output.from_logits(np.array([[np.nan]]))
    assert selectors["small"].decide(nothing).decisions.actions == (Action.ESCALATE,)
    assert selectors["large"].decide(nothing).decisions.actions == (Action.REVIEW,)


def test_scores_that_only_one_model_has_are_undefined_for_the_other(two):
    selectors, fresh = two
    judged = {name: selectors[name].decide(fresh[name].output) for name in selectors}
    other = replace(judged["large"], scores={"entropy": judged["large"].scores["softmax_response"]})
    ended = last_words({"small": judged["small"], "large": other})
    by_large = ended.by == 1
    assert np.isnan(ended.judgement.scores["softmax_response"][by_large]).all()
    assert np.isnan(ended.judgement.scores["entropy"][~by_large]).all()
    assert np.isfinite(ended.judgement.scores["entropy"][by_large]).all()


def test_ranks_of_one_model_cannot_promise_for_two():
    rng = np.random.default_rng(0)
    rows = dict(zip(("a", "b"), draw(rng, 400, (2, 4)), strict=True))
    recipes = {"a": recipe(SelectiveRisk(max_risk=0.2)), "b": recipe(GivenLimit(limit=0.0))}
    with pytest.raises(InvalidInput, match="use `method: ltt`"):
        fit_in_turn(recipes, {name: parts(rows[name], 200) for name in rows})


@pytest.mark.slow
def test_the_promise_of_a_cascade_is_about_the_answers_that_leave_it():
    """The small model is sure and often wrong; a limit that is safe for each alone would not be a promise for both."""
    rng = np.random.default_rng(7)
    limits = tuple(np.arange(50, 100, 2) / 100)
    policy = SelectiveRisk(max_risk=0.12, delta=0.2, method="ltt", limits=limits)
    recipes = {"small": recipe(policy), "large": recipe(GivenLimit(limit=0.0))}
    fresh = dict(zip(("small", "large"), draw(rng, 5_000, (1.2, 2.5)), strict=True))
    answering = broken = both = 0
    for _ in range(100):
        rows = dict(zip(("small", "large"), draw(rng, 1200, (1.2, 2.5)), strict=True))
        fitted = dict(zip(rows, fit_in_turn(recipes, {n: parts(rows[n], 500) for n in rows}), strict=True))
        ended = last_words({name: fitted[name].decide(fresh[name].output) for name in rows})
        right = ended.of([recipes[n].quality(fitted[n].predictor, fresh[n]) for n in rows])
        answered = ended.judgement.decisions.answered
        if answered.any():
            answering += 1
            both += bool((answered & (ended.by == 0)).any() and (answered & (ended.by == 1)).any())
            broken += 1 - right[answered].mean() > 0.12
            assert fitted["small"].policy.promise.n == 700
    assert answering > 70
    assert both > 50  # both models give answers, so there is a cascade to speak of
    assert broken <= binom.ppf(0.9999, 100, 0.2)


def test_models_that_calibrate_unequal_numbers_of_labels_tell_what_all_of_them_know(two):
    selectors, fresh = two
    judged = {}
    for k, name in zip((3, 2), selectors, strict=True):
        known = np.arange(k) + np.arange(4000)[:, None]
        judged[name] = replace(selectors[name].decide(fresh[name].output), label_confidence=known)
    ended = last_words(judged)
    assert set(ended.by) == {0, 1}
    np.testing.assert_array_equal(ended.judgement.label_confidence, judged["large"].label_confidence)
