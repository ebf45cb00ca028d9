from dataclasses import replace

import numpy as np
import pytest

from demur.policies.betting import betting_p_value, labels_without_loss
from demur.policies.decision import Action
from demur.policies.graded import GradedRows
from demur.policies.selective_risk import SelectiveRisk
from demur.uncertainty.checks import InvalidInput
from tests.policies.conftest import assessed, graded

METHODS = ("sgr", "ltt", "ltt_fixed_sequence")


def rows(n, n_errors):
    """Distinct confidences in [0.9, 1), the errors among the lowest."""
    return 0.9 + np.arange(n) / (10 * n), (np.arange(n) >= n_errors).astype(float)


@pytest.mark.parametrize("method", METHODS)
def test_a_limit_says_what_it_promises(method):
    recipe = SelectiveRisk(max_risk=0.02, method=method, limits=(0.5, 0.9, 0.94))
    fitted = recipe.fit(graded(*rows(3000, 100)))
    assert 0.9 < fitted.limit < 0.95
    decisions = fitted.decide(assessed([0.89, 0.96, np.nan]))
    assert decisions.actions == (Action.REVIEW, Action.ANSWER, Action.REVIEW)
    assert decisions.reasons[0].endswith(
        "the limit for at most 2.00% wrong answers, except with probability 5%, on traffic like the calibration data"
    )


@pytest.mark.parametrize(("method", "needed"), [("sgr", 299), ("ltt", 758), ("ltt_fixed_sequence", 299)])
def test_too_few_labels_are_named_with_how_many_would_do(method, needed):
    recipe = SelectiveRisk(max_risk=0.01, method=method, limits=(*np.arange(100) / 1000, 0.9), otherwise="abstain")
    assert recipe.labels_needed() == needed
    assert np.isfinite(recipe.fit(graded(*rows(needed, 0))).limit)
    fitted = recipe.fit(graded(*rows(needed - 1, 0)))
    decisions = fitted.decide(assessed([1.0]))
    assert decisions.actions == (Action.ABSTAIN,)
    assert f"{needed:,}" in decisions.reasons[0]
    assert "at most 1.00% wrong answers at 95% confidence" in decisions.reasons[0]


@pytest.mark.parametrize("max_risk", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("method", METHODS)
def test_no_smaller_number_of_labels_would_do(max_risk, delta, method):
    recipe = SelectiveRisk(max_risk=max_risk, delta=delta, method=method)
    fitted = [
        np.isfinite(recipe.fit(graded(1 - np.arange(n) / 1e6, np.ones(n))).limit)
        for n in range(1, min(recipe.labels_needed(), 400) + 1)
    ]
    assert not any(fitted[:-1])
    assert fitted[-1] == (recipe.labels_needed() <= 400)


def test_the_words_for_too_few_labels():
    meaning = SelectiveRisk(max_risk=0.01, method="ltt", limits=(0.5,)).fit(graded(*rows(180, 0))).meaning
    assert meaning == (
        "with 180 labels no limit can promise at most 1.00% wrong answers at 95% confidence;"
        " 299 labels without an error would allow it"
    )


def test_the_words_when_nobody_reaches_the_first_limit():
    meaning = SelectiveRisk(max_risk=0.01, method="ltt_fixed_sequence").fit(graded(*rows(5000, 0))).meaning
    assert meaning.startswith("only 50 of 5,000 labels reach 0.999, the limit to be tried first; 299 without an error")


@pytest.mark.parametrize("method", METHODS)
def test_the_words_for_too_many_errors(method):
    recipe = SelectiveRisk(max_risk=0.01, method=method, limits=(0.5, 0.9))
    fitted = recipe.fit(graded(*rows(5000, 5000)))
    assert np.isposinf(fitted.limit)
    assert fitted.meaning.startswith("no limit tried on 5,000 labels, 5,000 of them wrong, can promise at most 1.00%")


@pytest.mark.parametrize(
    "settings",
    [
        {"max_risk": 0.0},
        {"max_risk": 1.0},
        {"max_risk": 0.1, "delta": 0.0},
        {"max_risk": 0.1, "method": "bonferroni"},
        {"max_risk": 0.1, "limits": ()},
        {"max_risk": 0.1, "limits": (0.9, 0.5)},
        {"max_risk": 0.1, "limits": (0.5, 1.5)},
    ],
)
def test_settings_that_promise_nothing(settings):
    with pytest.raises(InvalidInput):
        SelectiveRisk(**settings)


@pytest.mark.parametrize("method", METHODS)
def test_the_promise_holds(method):
    """An answer is wrong with probability (1 - c) / 2, so above t a quarter of 1 - t is."""
    rng = np.random.default_rng(0)
    recipe = SelectiveRisk(max_risk=0.15, delta=0.2, method=method, limits=tuple(np.arange(16) / 20))
    limits = []
    for _ in range(400):
        confidence = rng.random(800)
        limits.append(recipe.fit(graded(confidence, (rng.random(800) >= (1 - confidence) / 2).astype(float))).limit)
    answering = np.array(limits)[np.isfinite(limits)]
    assert len(answering) > 350  # else it would be kept by silence
    assert np.sum((1 - answering) / 4 > 0.15 + 1e-12) <= 0.2 * 400


DEGREES = SelectiveRisk(max_risk=0.2, delta=0.1, method="ltt_fixed_sequence", bound="betting", limits=(0.5, 0.7, 0.9))


def degrees(n, rng, loss=0.2):
    """Rows whose loss is `loss` on average at 0.9 and above, and 0.5 below."""
    sure = rng.random(n) < 0.8
    share = np.where(sure, loss, 0.5)
    return replace(graded(np.where(sure, 0.95, 0.6), 1 - rng.beta(2 * share, 2 * (1 - share))), in_degrees=True)


def test_what_answers_lack_on_average_is_promised_by_betting():
    fitted = DEGREES.fit(degrees(2_000, np.random.default_rng(0), loss=0.15))
    assert fitted.limit == 0.7
    assert fitted.promise.statement.startswith(
        "at most 20% of an answer is wrong on average (1 - the Jaccard similarity of its labels and the right ones)"
    )
    assert fitted.promise.errors is None
    assert 0.15 < fitted.promise.bound < 0.2
    assert "at most 20.00% of an answer wrong on average, except with probability 10%" in fitted.meaning
    refused = DEGREES.fit(degrees(60, np.random.default_rng(0)))
    assert np.isinf(refused.limit)
    assert refused.promise.statement.startswith("nothing is promised: 60 labelled rows cannot show that at most 20%")


@pytest.mark.slow
def test_a_risk_at_the_target_is_seldom_promised():
    rng = np.random.default_rng(1)
    broken = sum(np.isfinite(DEGREES.fit(degrees(400, rng, loss=0.2)).limit) for _ in range(400))
    assert broken <= 0.1 * 400


def test_the_order_of_a_sorted_file_makes_no_promise():
    """Rows that are all right come first in the file; a bet in that order would be won before the others came."""
    quality = np.append(np.ones(200), np.zeros(60))
    assert betting_p_value(1 - quality, 0.2, 0.1) < 0.1
    assert np.isinf(DEGREES.fit(graded(np.full(260, 0.95), quality)).limit)


def test_betting_counts_wrong_answers_too():
    fitted = DEGREES.fit(graded(*rows(400, 8)))
    assert fitted.promise.share == "of the answers are wrong"
    assert fitted.promise.errors == 8


def test_losses_at_a_limit_are_those_of_the_model_that_answers():
    both = GradedRows.in_turn([graded([0.9, 0.4, 0.2], [1, 0.5, 0]), graded([0.5, 0.8, np.nan], [0, 0.25, 1])])
    assert both.losses_at(0.6).tolist() == [0, 0.75]
    assert both.losses_at(0.3).tolist() == [0, 0.5]
    assert both.losses_at(0.95).tolist() == []
    lost = [both.losses_at(limit).sum() for limit in (0.1, 0.3, 0.6, 0.95)]
    assert lost == pytest.approx(both.at(np.array([0.1, 0.3, 0.6, 0.95]))[1].tolist())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"method": "sgr", "bound": "betting"}, "bound: betting tests given limits; write `method: ltt`"),
        ({"method": "ltt", "bound": "hoeffding"}, "bound is 'hoeffding'; it is 'binomial' or 'betting'"),
    ],
)
def test_a_bound_that_does_not_fit_is_refused(told, message):
    with pytest.raises(InvalidInput, match=message):
        SelectiveRisk(max_risk=0.1, **told)


@pytest.mark.parametrize("quality", [[1.2, 1.0], [-0.1, 1.0], [np.nan, 1.0]])
def test_losses_outside_0_to_1_are_refused(quality):
    with pytest.raises(InvalidInput, match="quality"):
        DEGREES.fit(graded([0.95, 0.95], quality))


@pytest.mark.parametrize(("max_risk", "delta"), [(0.05, 0.05), (0.2, 0.01), (0.5, 0.0005)])
def test_so_many_labels_without_a_loss_are_enough_and_one_less_is_not(max_risk, delta):
    n = labels_without_loss(max_risk, delta)
    assert betting_p_value(np.zeros(n), max_risk, delta) <= delta
    assert n == 1 or betting_p_value(np.zeros(n - 1), max_risk, delta) > delta
