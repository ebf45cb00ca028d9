import numpy as np
import pytest

from demur.policies.decision import Action
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


@pytest.mark.parametrize(("method", "needed"), [("sgr", 1_073), ("ltt", 758), ("ltt_fixed_sequence", 299)])
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
