import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from demur.uncertainty.logistic import fit_logistic


def equations(features, targets, slopes, intercept):
    """What is 0 at the maximum of the likelihood, for features brought to one scale."""
    z = (features - features.mean(axis=0)) / features.std(axis=0)
    off = expit(features @ slopes + intercept) - targets
    return np.append(off.mean(), (off[:, None] * z).mean(axis=0))


@pytest.mark.parametrize("scale", [1e-150, 1e-18, 1e-8, 1.0, 1e8, 1e100])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_likelihood_equations_hold_at_any_scale(seed, scale):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, 2)) * scale + rng.normal(size=2) * scale * 10.0 ** rng.integers(0, 4)
    targets = rng.random(40) if seed % 2 else rng.integers(2, size=40) * 0.98 + 0.01
    slopes, intercept = fit_logistic(features, targets)
    np.testing.assert_allclose(equations(features, targets, slopes, intercept), 0, atol=1e-11)


def test_an_offset_much_larger_than_the_spread():
    rng = np.random.default_rng(0)
    small = rng.normal(size=(50, 1)).round(3)
    targets = np.where(rng.random(50) < expit(small[:, 0]), 0.9, 0.2)
    near, far = fit_logistic(small, targets)[0], fit_logistic(small + 2**20, targets)[0]
    np.testing.assert_allclose(near, far, rtol=1e-6)


def test_a_feature_that_is_constant_gets_no_slope():
    rng = np.random.default_rng(1)
    useful, targets = rng.normal(size=30), rng.integers(2, size=30) * 0.8 + 0.1
    slopes, intercept = fit_logistic(np.column_stack([useful, np.full(30, 0.1)]), targets)
    alone, same = fit_logistic(useful[:, None], targets)
    assert slopes[1] == 0
    np.testing.assert_allclose([slopes[0], intercept], [alone[0], same], rtol=1e-9)


@pytest.mark.parametrize("target", [0.25, 0.8])
def test_targets_that_are_constant_leave_the_intercept(target):
    slopes, intercept = fit_logistic(np.arange(6.0).reshape(3, 2), np.full(3, target))
    np.testing.assert_array_equal(slopes, 0)
    assert intercept == pytest.approx(logit(target))


@pytest.mark.parametrize("n", [2, 30, 3000])
def test_classes_that_can_be_separated_end_in_a_steep_curve(n):
    feature = np.arange(n, dtype=float)
    slopes, intercept = fit_logistic(feature[:, None], (feature >= n // 2).astype(float))
    p = expit(feature * slopes[0] + intercept)
    assert p[: n // 2].max() < 1e-3
    assert p[n // 2 :].min() > 1 - 1e-3
