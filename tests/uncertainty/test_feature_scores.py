from dataclasses import fields

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import Ridge

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.feature_scores import FeatureLogistic, FeatureRidge, FeatureSum


def traces(n=40, seed=0):
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.integers(50, 900, n), rng.integers(0, 8, n), rng.integers(0, 10, n)]).astype(float)
    return features, (features[:, 0] + rng.normal(size=n) * 300 < 450).astype(float)


@pytest.mark.parametrize(
    ("row", "score"),
    [
        ([0, 1, 7], 0.0),
        ([10, 3, 7], 2.0),
        ([5, 2, 7], 1.0),
        ([99, -5, 7], 1.0),  # clipped on both sides
        ([0, 1, 8], 0.0),  # a feature that was constant says nothing, whatever it is now
    ],
)
def test_the_sum_of_scaled_features(row, score):
    fitted = FeatureSum().fit([[0, 1, 7], [10, 3, 7], [4, 2, 7]])
    assert fitted.uncertainty([row]).tolist() == [score]


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("separable", [False, True])
def test_the_logistic_fit_is_the_minimum(C, separable):
    features, correct = traces()
    if separable:
        correct = (features[:, 0] > 450).astype(float)
    fitted = FeatureLogistic(C=C).fit(features, correct)
    z = (features - features.mean(axis=0)) / features.std(axis=0)
    p = expit(z @ fitted.coef + fitted.intercept)
    np.testing.assert_allclose(z.T @ (p - correct) + fitted.coef / C, 0, atol=1e-8)  # the gradient vanishes
    assert abs((p - correct).sum()) < 1e-8
    np.testing.assert_allclose(fitted.uncertainty(features), 1 - p, atol=1e-12)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_the_ridge_fit_is_that_of_the_library(alpha):
    features, correct = traces()
    z = (features - features.mean(axis=0)) / features.std(axis=0)
    theirs, ours = Ridge(alpha=alpha).fit(z, correct), FeatureRidge(alpha=alpha).fit(features, correct)
    np.testing.assert_allclose(ours.coef, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(ours.uncertainty(features), 1 - np.clip(theirs.predict(z), 0, 1), atol=1e-12)


def test_least_squares_without_a_penalty():
    fitted = FeatureRidge(alpha=0).fit([[0, 0], [1, 1], [2, 2], [3, 3]], [0, 0, 1, 1])
    assert fitted.coef[0] == pytest.approx(fitted.coef[1])  # two equal features share the weight
    np.testing.assert_allclose(fitted.uncertainty([[0, 0], [1.5, 1.5], [9, 9]]), [1, 0.5, 0], atol=1e-12)


@pytest.mark.parametrize("recipe", [FeatureLogistic(), FeatureRidge()])
@pytest.mark.parametrize("value", [0.1, 7.0, 1e6])
def test_a_constant_feature_has_no_weight(recipe, value):
    features, correct = traces()
    features[:, 1] = value  # the standard deviation of many 0.1 is not exactly 0
    fitted = recipe.fit(features, correct)
    assert fitted.coef[1] == 0
    changed = features.copy()
    changed[:, 1] = -3
    np.testing.assert_allclose(fitted.uncertainty(changed), fitted.uncertainty(features), atol=1e-12)


@pytest.mark.parametrize("outcome", [0, 1])
def test_one_outcome(outcome):
    with pytest.raises(InvalidInput, match="both must occur"):
        FeatureLogistic().fit([[1.0], [2.0]], [outcome, outcome])
    assert FeatureRidge().fit([[1.0], [2.0]], [outcome, outcome]).uncertainty([[5.0]]).tolist() == [1 - outcome]


@pytest.mark.parametrize("recipe", [FeatureSum(), FeatureLogistic(), FeatureRidge()])
def test_what_is_fitted_can_be_stored_and_does_not_look_at_the_batch(recipe):
    features, correct = traces()
    fitted = recipe.fit(features, correct)
    for field in fields(fitted):
        value = getattr(fitted, field.name)
        assert isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64)
    np.testing.assert_allclose(fitted.uncertainty(features)[3:4], fitted.uncertainty(features[3:4]), rtol=1e-12)
    with pytest.raises(InvalidInput, match="columns"):
        fitted.uncertainty(features[:, :2])
    for bad in ([], [[np.nan, 1, 1]], [1.0, 2.0, 3.0]):
        with pytest.raises(InvalidInput):
            fitted.uncertainty(bad)


@pytest.mark.parametrize("recipe", [FeatureLogistic(), FeatureRidge()])
@pytest.mark.parametrize(
    ("features", "correct"),
    [([], []), ([[1.0], [2.0]], [1]), ([[1.0], [2.0]], [0, 2]), ([[1.0], [np.inf]], [0, 1]), ([1.0, 2.0], [0, 1])],
)
def test_what_cannot_be_fitted_is_refused(recipe, features, correct):
    with pytest.raises(InvalidInput):
        recipe.fit(features, correct)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", None, True])
def test_penalties_are_numbers(value):
    with pytest.raises(InvalidInput):
        FeatureRidge(alpha=value)
    with pytest.raises(InvalidInput):
        FeatureLogistic(C=value)


def test_a_penalty_of_the_logistic_fit_cannot_be_without_end():
    with pytest.raises(InvalidInput):
        FeatureLogistic(C=0)
