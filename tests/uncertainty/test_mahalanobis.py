import numpy as np
import pytest

from uncertainty.checks import InvalidInput
from uncertainty.mahalanobis import Mahalanobis, fit_mahalanobis
from uncertainty.output import LabelledOutput, Output


def test_the_distance_is_that_of_the_textbook():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5)), rng.integers(3, size=200)
    means = np.array([features[labels == c].mean(axis=0) for c in range(3)])
    inverse = np.linalg.inv((features - means[labels]).T @ (features - means[labels]) / 200)
    query = rng.normal(size=(7, 5)) * 3
    by_hand = [min((h - m) @ inverse @ (h - m) for m in means) for h in query]
    np.testing.assert_allclose(fit_mahalanobis(features, labels).distance(query), by_hand, rtol=1e-9)


def test_a_far_offset_does_not_cost_precision():
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(100, 3)), rng.integers(2, size=100)
    near = fit_mahalanobis(features, labels).distance(features[:5])
    far = fit_mahalanobis(features + 1e6, labels).distance(features[:5] + 1e6)
    np.testing.assert_allclose(near, far, rtol=1e-8)


def test_one_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(2)
    fitted = fit_mahalanobis(rng.normal(size=(50, 4)), rng.integers(2, size=50))
    query = rng.normal(size=(6, 4))
    # to the last digit but one: matrix products of other shapes are summed in another order
    np.testing.assert_allclose(fitted.distance(query)[3:4], fitted.distance(query[3:4]), rtol=1e-12)


def test_a_singular_covariance_asks_for_shrinkage():
    features, labels = np.repeat(np.eye(6), 2, axis=0), np.arange(12) % 2
    with pytest.raises(InvalidInput, match="shrinkage"):
        fit_mahalanobis(features, labels)
    assert np.isfinite(fit_mahalanobis(features, labels, shrinkage=0.1).distance(features)).all()


def test_it_says_what_is_missing():
    rows = LabelledOutput.of_classes(Output.from_logits(np.zeros((4, 2))), np.arange(4) % 2)
    with pytest.raises(InvalidInput, match="needs the embedding"):
        Mahalanobis().fit(rows, np.ones(4))


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan")])
def test_shrinkage_is_a_share(shrinkage):
    with pytest.raises(InvalidInput, match="shrinkage"):
        Mahalanobis(shrinkage=shrinkage)
