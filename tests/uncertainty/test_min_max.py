import math

import numpy as np
import pytest

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.min_max import MinMax, fit_min_max


@pytest.mark.parametrize(
    ("fitted", "scores", "confidence"),
    [
        ([-2, 0, 6], [-5, -2, 0, 3, 6, 9], [0, 0, 0.25, 0.625, 1, 1]),  # clipped on both sides
        ([6, -2], [2], [0.5]),  # the order of the rows says nothing
        ([0, 1e-300], [-1e10, 5e-301, 1e10], [0, 0.5, 1]),
        ([3], [3, 4], [math.nan, math.nan]),  # no width, no confidence
        ([3, 3], [2], [math.nan]),
        ([0, 1], [math.nan], [math.nan]),  # as a served score may be
    ],
)
def test_scores_between_the_ends(fitted, scores, confidence):
    np.testing.assert_allclose(fit_min_max(fitted).confidence(np.array(scores, dtype=float)), confidence)


def test_outcomes_play_no_part():
    recipe = MinMax()
    assert recipe.fit(np.array([0.0, 4.0]), np.zeros(2)) == recipe.fit(np.array([0.0, 4.0]), np.ones(2))


@pytest.mark.parametrize("bad", [[], [math.nan], [math.inf, 0], [[1.0]], ["1"], None, 3.0])
def test_bad_scores_are_refused(bad):
    with pytest.raises(InvalidInput):
        fit_min_max(bad)
