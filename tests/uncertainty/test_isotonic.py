import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.isotonic import Isotonic, fit_isotonic


def by_hand(scores, targets, weights, queries, interpolation):
    """The value at a score is the largest of the smallest means over an interval around it: no pooling needed."""
    used = [(s, y, w) for s, y, w in zip(scores, targets, weights, strict=True) if w > 0]
    places = sorted({s for s, _, _ in used})

    def mean(low, high):
        inside = [(y, w) for s, y, w in used if low <= s <= high]
        return sum(y * w for y, w in inside) / sum(w for _, w in inside)

    fitted = [
        max(min(mean(low, high) for high in places if high >= here) for low in places if low <= here) for here in places
    ]

    def value(q):
        if q <= places[0]:
            return fitted[0]
        if q >= places[-1]:
            return fitted[-1]
        right = next(i for i, place in enumerate(places) if place > q)
        if interpolation == "step":
            return fitted[right - 1]
        share = (q - places[right - 1]) / (places[right] - places[right - 1])
        return fitted[right - 1] + share * (fitted[right] - fitted[right - 1])

    return [value(q) for q in queries]


@pytest.mark.parametrize("interpolation", ["linear", "step"])
@settings(deadline=None)
@given(seed=st.integers(0, 10**6))
def test_it_is_the_least_squares_fit(seed, interpolation):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    scale = 10.0 ** rng.integers(-9, 10)
    scores = rng.integers(0, 8, size=n) * scale
    targets = rng.integers(2, size=n) if seed % 3 else rng.random(n)
    weights = None if seed % 2 else rng.integers(0, 4, size=n) * 10.0 ** rng.integers(-200, 200)
    if weights is not None and not weights.any():
        weights[0] = 1
    queries = np.concatenate([scores, rng.uniform(-1, 9, size=6) * scale])
    fitted = fit_isotonic(scores, targets, weights=weights, interpolation=interpolation)
    ones = np.ones(n) if weights is None else weights / weights.max()
    wanted = by_hand(scores.tolist(), targets.tolist(), ones.tolist(), queries.tolist(), interpolation)
    np.testing.assert_allclose(fitted.confidence(queries), wanted, atol=1e-9)


SCORES = st.floats(-1e6, 1e6) | st.floats(0, 1) | st.floats(0, 1e-300) | st.sampled_from([0.0, 0.5, 1.0])
ROWS = st.lists(st.tuples(SCORES, st.integers(0, 1), st.floats(0.1, 10)), min_size=1, max_size=25)


@settings(deadline=None)
@given(ROWS, st.lists(SCORES, max_size=20), st.sampled_from(["linear", "step"]))
def test_it_never_falls_and_keeps_the_mean_of_the_fitted_rows(rows, others, interpolation):
    scores, targets, weights = np.array(rows).T
    fitted = fit_isotonic(scores, targets, weights=weights, interpolation=interpolation)
    everywhere = fitted.confidence(np.sort(np.concatenate([scores, others])))
    assert (np.diff(everywhere) >= 0).all()  # not even by rounding, or labels would change places
    assert ((everywhere >= 0) & (everywhere <= 1)).all()
    mean = np.average(fitted.confidence(scores), weights=weights)
    assert mean == pytest.approx(np.average(targets, weights=weights), abs=1e-9)


def test_probabilities_that_hardly_differ_are_told_apart():
    """numpy.interp gives infinity here: its slopes overflow."""
    fitted = fit_isotonic([0, 1e-310, 3e-310], [0, 0.25, 1])
    np.testing.assert_allclose(fitted.confidence(np.array([0, 1e-310, 2e-310, 3e-310, 1])), [0, 0.25, 0.625, 1, 1])


def test_the_ends_hold_beyond_them():
    for interpolation in ("linear", "step"):
        fitted = Isotonic(interpolation=interpolation).fit(np.array([1.0, 2.0]), np.array([0.25, 0.75]))
        np.testing.assert_array_equal(
            fitted.confidence(np.array([-math.inf, -9, 1, 2, 9, math.inf, math.nan])),
            [0.25, 0.25, 0.25, 0.75, 0.75, 0.75, math.nan],
        )


@pytest.mark.parametrize(
    ("scores", "targets", "weights"),
    [
        ([], [], None),
        ([1, 2], [1], None),
        ([1, 2], [0, 1], [1]),
        ([1, math.inf], [0, 1], None),
        ([1, 2], [0, 2], None),
        ([1, 2], [0, math.nan], None),
        ([1, 2], [0, 1], [1, -1]),
        ([1, 2], [0, 1], [0, 0]),
        ([1, 2], [0, 1], [1, math.nan]),
        ([1, "2"], [0, 1], None),
        ([[1], [2]], [0, 1], None),
        ([1, None], [0, 1], None),
    ],
)
def test_bad_data_is_refused(scores, targets, weights):
    with pytest.raises(InvalidInput):
        fit_isotonic(scores, targets, weights=weights)


@pytest.mark.parametrize("interpolation", ["cubic", "", None, 1, ["step"]])
def test_an_unknown_interpolation_is_refused(interpolation):
    with pytest.raises(InvalidInput):
        fit_isotonic([1, 2], [0, 1], interpolation=interpolation)
    with pytest.raises(InvalidInput):
        Isotonic(interpolation=interpolation)
