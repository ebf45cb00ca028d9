import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.platt import Platt, fit_platt


def test_platt_without_smoothing_is_plain_logistic_regression():
    rng = np.random.default_rng(0)
    evidence = rng.normal(3, 5, size=300)
    targets = (rng.random(300) < 1 / (1 + np.exp(1 - 0.4 * evidence))).astype(float)
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(evidence[:, None], targets)
    fitted = fit_platt(evidence, targets, smoothing=False)
    assert -fitted.a == pytest.approx(reference.coef_[0, 0], abs=1e-6)
    assert -fitted.b == pytest.approx(reference.intercept_[0], abs=1e-6)


def test_platt_is_not_certain_after_a_handful_of_rows():
    confidence = fit_platt([1.0, 2.0, 3.0], [1, 1, 1]).confidence(np.array([10.0]))
    assert confidence[0] == pytest.approx(0.8)


def test_platt_survives_large_evidence():
    fitted = fit_platt([-4000.0, -3000.0, 3000.0, 4000.0], [0, 1, 0, 1])
    assert np.isfinite(fitted.confidence(np.array([-1e6, 1e6]))).all()


@pytest.mark.parametrize(
    ("evidence", "targets", "why"),
    [
        ([1.0, np.nan], [0, 1], "NaN"),
        ([1.0, 2.0], [0, 0.5], "other than 0 and 1"),
        ([1.0, 2.0, 3.0], [0, 1], "lengths differ"),
        ([], [], "empty"),
    ],
)
def test_bad_data_is_refused(evidence, targets, why):
    with pytest.raises(InvalidInput, match=why):
        fit_platt(evidence, targets)


def test_platt_without_smoothing_needs_both_outcomes():
    with pytest.raises(InvalidInput, match="both outcomes"):
        fit_platt([1.0, 2.0], [1, 1], smoothing=False)


def likelihood_equations(fitted, scores, targets):
    """Platt's: the smoothed outcomes, and the outcomes times the score, are met in the mean."""
    right, wrong = sum(targets), len(targets) - sum(targets)
    smoothed = np.array([(right + 1) / (right + 2) if y else 1 / (wrong + 2) for y in targets])
    off = expit(-(fitted.a * scores + fitted.b)) - smoothed
    return off.mean(), (off * (scores - scores.mean())).mean() / scores.std()


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-16, 1e-8, 1.0, 1e8])
@pytest.mark.parametrize("separable", [False, True])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_optimum_is_found_at_any_scale_and_where_the_outcomes_can_be_separated(seed, separable, scale):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=int(rng.integers(2, 60))) * scale
    targets = (scores > np.median(scores) if separable else rng.random(len(scores)) < 0.7).astype(float)
    fitted = fit_platt(scores, targets)
    np.testing.assert_allclose(likelihood_equations(fitted, scores, targets), 0, atol=1e-11)
    unit = fit_platt(scores / scale, targets)  # the curve does not know the unit of its score
    np.testing.assert_allclose([fitted.a * scale, fitted.b], [unit.a, unit.b], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("targets", "smoothing", "probability"),
    [
        ([1, 1, 0], True, (2 * 3 / 4 + 1 / 3) / 3),  # the mean of Platt's targets
        ([1, 1, 0], False, 2 / 3),
        ([1, 1, 1], True, 4 / 5),
        ([0, 0, 0], True, 1 / 5),
    ],
)
def test_constant_evidence_says_nothing(targets, smoothing, probability):
    fitted = fit_platt([0.1, 0.1, 0.1], targets, smoothing=smoothing)
    assert fitted.a == 0
    np.testing.assert_allclose(fitted.confidence(np.array([-9.0, 0.1])), probability)


def test_more_evidence_means_more_often_right_and_a_is_below_0():
    assert fit_platt([0, 1, 2, 3], [0, 0, 1, 1]).a < 0 < fit_platt([0, 1, 2, 3], [1, 1, 0, 0]).a


@pytest.mark.parametrize("smoothing", ["no", None, 1, math.nan])
def test_smoothing_is_yes_or_no(smoothing):
    with pytest.raises(InvalidInput):
        fit_platt([1.0, 2.0], [0, 1], smoothing=smoothing)
    with pytest.raises(InvalidInput):
        Platt(smoothing=smoothing)
