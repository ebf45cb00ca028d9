import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from demur.uncertainty.beta import Beta, fit_beta
from demur.uncertainty.checks import InvalidInput


def loss(parameters, probs, targets):
    a, b, c = parameters
    p = np.clip(probs, 1e-12, 1 - 1e-12)
    eta = a * np.log(p) - b * np.log1p(-p) + c
    return np.mean(np.logaddexp(0, eta) - targets * eta)


def free_fit(probs, targets, fixed):
    """The best (a, b, c) with those in `fixed` held at 0, by a method that is told no derivatives."""
    free = [i for i in range(3) if i not in fixed]

    def full(x):
        parameters = np.zeros(3)
        parameters[free] = x
        return parameters

    start = np.zeros(len(free))
    best = minimize(lambda x: loss(full(x), probs, targets), start, method="BFGS", options={"gtol": 1e-9})
    return full(best.x)


def by_hand(probs, targets):
    """The rules of METHODS 3 for slopes below 0."""
    a, b, c = free_fit(probs, targets, ())
    if a < 0:
        a, b, c = free_fit(probs, targets, (0,))
    elif b < 0:
        a, b, c = free_fit(probs, targets, (1,))
    return (0, 0, logit(targets.mean())) if a < 0 or b < 0 else (a, b, c)


def drawn(seed):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, size=60).round(3)
    shape = [p, np.sqrt(p), 1 - p, p**3, np.full(60, 0.5), 1 - p**2, np.abs(2 * p - 1)][seed % 7]
    return p, (rng.random(60) < shape).astype(float)


@pytest.mark.slow
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_best_curve_under_the_rules_for_falling_ones(seed):
    probs, targets = drawn(seed)
    fitted, wanted = fit_beta(probs, targets), by_hand(probs, targets)
    assert min(fitted.a, fitted.b) >= 0
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], wanted, atol=2e-3, rtol=2e-3)
    assert loss((fitted.a, fitted.b, fitted.c), probs, targets) <= loss(wanted, probs, targets) + 1e-12


def test_every_rule_is_met_by_some_draw():
    met = set()
    for seed in range(42):
        fitted = fit_beta(*drawn(seed))
        met.add((fitted.a > 0, fitted.b > 0))
    assert met == {(True, True), (True, False), (False, True), (False, False)}


def test_a_score_that_points_the_wrong_way_leaves_the_mean():
    fitted = fit_beta([0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 0.4, 0.6], [1, 1, 1, 0, 0, 0, 0, 1])
    assert (fitted.a, fitted.b, fitted.c) == (0, 0, 0)
    np.testing.assert_array_equal(fitted.confidence(np.array([0.0, 0.5, 1.0])), 0.5)


def test_probabilities_that_are_calibrated_stay_as_they_are():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    fitted = fit_beta(p, (rng.random(len(p)) < p).astype(float))
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], [1, 1, 0], atol=0.03)


def test_it_never_falls_and_0_and_1_are_clipped():
    rng = np.random.default_rng(1)
    p = np.concatenate([[0, 0, 1, 1], rng.random(60)])
    fitted = fit_beta(p, np.concatenate([[0, 1, 0, 1], rng.random(60) < p[4:]]))
    confidence = fitted.confidence(np.array([0, 1e-12, 1e-6, 0.3, 0.9, 1 - 1e-12, 1]))
    assert (np.diff(confidence) >= 0).all()
    assert confidence[0] == confidence[1]
    assert confidence[-1] == confidence[-2]
    assert np.isnan(fitted.confidence(np.array([math.nan]))).all()


def test_a_wider_clip():
    fitted = Beta(eps=0.1).fit(np.array([0.0, 0.3, 0.6, 1.0, 0.5, 0.2]), np.array([0.0, 1, 0, 1, 1, 0]))
    eta = fitted.a * math.log(0.1) - fitted.b * math.log(0.9) + fitted.c
    np.testing.assert_allclose(fitted.confidence(np.array([0.0, 0.05, 0.1])), expit(eta))


def test_probabilities_that_are_all_one():
    fitted = fit_beta([0.3, 0.3, 0.3], [0, 1, 1])
    np.testing.assert_allclose(fitted.confidence(np.array([0.3])), 2 / 3)


@pytest.mark.parametrize(
    ("probs", "targets"),
    [
        ([], []),
        ([0.2, 0.4], [1, 1]),
        ([0.2, 0.4], [0, 0]),
        ([0.2, 1.1], [0, 1]),
        ([0.2, math.nan], [0, 1]),
        ([0.2, 0.4], [0, 0.5]),
        ([0.2], [0, 1]),
        (["0.2", "0.4"], [0, 1]),
        (None, None),
    ],
)
def test_bad_data_is_refused(probs, targets):
    with pytest.raises(InvalidInput):
        fit_beta(probs, targets)


@pytest.mark.parametrize("eps", [0, -1, 0.5, math.nan, "0.1", None, True])
def test_a_clip_outside_its_range_is_refused(eps):
    with pytest.raises(InvalidInput):
        fit_beta([0.2, 0.4], [0, 1], eps=eps)
    with pytest.raises(InvalidInput):
        Beta(eps=eps)
