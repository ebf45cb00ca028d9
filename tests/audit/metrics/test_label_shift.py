import numpy as np
import pytest

from demur.audit.metrics.label_shift import label_shift
from demur.uncertainty.checks import InvalidInput

GIVEN_TRUTH = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.2, 0.6]])  # predicted by true


@pytest.mark.parametrize("scale", [1, 250, 1e-9])
def test_the_classes_behind_the_predictions_are_found(scale):
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])
    found = label_shift(GIVEN_TRUTH * old * scale, GIVEN_TRUTH @ new * 1_000)
    np.testing.assert_allclose(found.prior, new)
    np.testing.assert_allclose(found.reference_prior, old)
    np.testing.assert_allclose(found.weights, new / old)


def test_what_only_chance_explains_is_clipped():
    found = label_shift([[40, 5], [10, 45]], [90, 10])
    assert found.weights[1] < 0
    assert found.prior.tolist() == [1, 0]


@pytest.mark.parametrize("confusion", [[[1, 0], [1, 0]], [[1, 1], [1, 1]], [[2, 1], [4, 2]]])
def test_classes_that_cannot_be_told_apart(confusion):
    found = label_shift(confusion, [1, 1])
    assert np.isnan(found.weights).all()
    assert np.isnan(found.prior).all()
    assert not np.isnan(found.reference_prior).any()


@pytest.mark.parametrize(
    ("confusion", "predicted"),
    [([[1, 0]], [1]), ([[1, 0], [0, 1]], [1]), ([[1, -1], [0, 1]], [1, 1]), ([[1, 0], [0, 1]], [0, 0]), ([[0]], [1])],
)
def test_what_is_refused(confusion, predicted):
    with pytest.raises(InvalidInput):
        label_shift(confusion, predicted)
