import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.min_max import MinMax
from demur.uncertainty.score_confidence import entropy_confidence, minmax_confidence

SCORES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("u", "reference", "confidence"),
    [
        ([0, 1, 4], None, [1, 0.75, 0]),
        ([-9, 2, 9], [0, 4], [1, 0.5, 0]),  # clipped on both sides
        ([1], None, [math.nan]),  # one row is a constant reference
        ([0, 1], [3, 3], [math.nan, math.nan]),
        ([1e10], [0, 1e-300], [0]),  # the quotient would overflow
    ],
)
def test_minmax(u, reference, confidence):
    np.testing.assert_array_equal(minmax_confidence(u, reference), confidence)


@pytest.mark.parametrize(
    ("u", "reference"), [([], None), ([], [0, 1]), ([1], []), ([math.nan], [0, 1]), ([1], [0, math.inf]), (1.0, None)]
)
def test_minmax_refuses(u, reference):
    with pytest.raises(InvalidInput):
        minmax_confidence(u, reference)


@settings(deadline=None)
@given(SCORES, SCORES)
def test_fitted_on_a_calibration_set_it_does_not_look_at_the_batch(u, reference):
    fitted = MinMax().fit(-np.array(reference), np.ones(len(reference)))
    together = fitted.confidence(-np.array(u))
    np.testing.assert_array_equal(together, minmax_confidence(u, reference))
    np.testing.assert_array_equal(together, np.concatenate([fitted.confidence(np.array([-one])) for one in u]))
    order = np.argsort(u)
    assert len(set(reference)) == 1 or (np.diff(together[order]) <= 0).all()  # less sure, less confident


def test_an_undefined_score_stays_undefined():
    fitted = MinMax().fit(np.array([-1.0, 0.0]), np.ones(2))
    np.testing.assert_array_equal(fitted.confidence(np.array([math.nan, -0.25])), [math.nan, 0.75])


@pytest.mark.parametrize(
    ("u", "n_classes", "confidence"),
    [(0, 2, 1), (math.log(2), 2, 0), (math.log(2), 4, 0.5), (9, 2, 0), (-1e-12, 2, 1)],
)
def test_entropy_confidence(u, n_classes, confidence):
    np.testing.assert_allclose(entropy_confidence([u], n_classes), [confidence], atol=1e-15)


@pytest.mark.parametrize(
    ("u", "n_classes"), [([], 2), ([math.nan], 2), ([0.1], 1), ([0.1], 2.0), ([0.1], True), ([0.1], None), (0.1, 2)]
)
def test_entropy_confidence_refuses(u, n_classes):
    with pytest.raises(InvalidInput):
        entropy_confidence(u, n_classes)
