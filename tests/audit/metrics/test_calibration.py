import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.calibration import (
    ace,
    bin_numbers,
    brier,
    c_slope,
    calibration_bins,
    citl,
    ece,
    ece_brier_mean,
    ece_plus,
    mce,
    nll,
)
from demur.audit.metrics.ranking import Ranking
from demur.uncertainty.checks import InvalidInput

confidences = st.floats(0, 1) | st.integers(0, 20).map(lambda k: k / 20)
pairs = st.lists(st.tuples(confidences, st.integers(0, 1)), min_size=1, max_size=50)


def columns(rows):
    confidence, outcome = np.array(rows, dtype=np.float64).T
    return confidence, outcome


@settings(deadline=None)
@given(pairs, st.integers(1, 20))
def test_every_row_is_in_exactly_one_bin(rows, n_bins):
    for closed in ("left", "right"):
        bins = calibration_bins(*columns(rows), n_bins=n_bins, closed=closed)
        assert sum(b.count for b in bins) == len(rows)


@settings(deadline=None)
@given(pairs)
def test_one_bin_measures_the_gap_of_the_means_and_more_bins_find_more(rows):
    confidence, outcome = columns(rows)
    gap = abs(citl(confidence, outcome))
    assert ece(confidence, outcome, n_bins=1) == pytest.approx(gap, abs=1e-12)
    assert ace(confidence, outcome, n_bins=1) == pytest.approx(gap, abs=1e-12)
    assert mce(confidence, outcome) >= ece(confidence, outcome) - 1e-12
    assert ece(confidence, outcome) >= gap - 1e-12
    assert ace(confidence, outcome) >= gap - 1e-12


@pytest.mark.slow
@settings(deadline=None)
@given(pairs, st.randoms(use_true_random=False), st.integers(1, 12))
def test_row_order_does_not_matter(rows, random, n_bins):
    shuffled = random.sample(rows, len(rows))
    for metric in (ece, ace, mce):
        values = [metric(*columns(order), n_bins=n_bins) for order in (rows, shuffled)]
        np.testing.assert_allclose(*values, atol=1e-12)


@pytest.mark.parametrize("n_bins", [1, 2, 3, 7, 10, 15, 49, 1000])
@pytest.mark.parametrize("closed", ["left", "right"])
def test_bins_begin_and_end_at_the_quotients(n_bins, closed):
    edges = np.arange(n_bins + 1) / n_bins
    near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    searched = np.searchsorted(edges[1:-1], near, side="right" if closed == "left" else "left")
    assert bin_numbers(near, n_bins, closed).tolist() == searched.tolist()


@pytest.mark.parametrize("k", range(11))
def test_tenths_fall_into_the_bin_that_they_open(k):
    counts = [b.count for b in calibration_bins([k / 10], [1], n_bins=10)]
    assert counts.index(1) == min(k, 9)


@pytest.mark.parametrize("k", range(11))
def test_tenths_fall_into_the_bin_that_they_close(k):
    counts = [b.count for b in calibration_bins([k / 10], [1], n_bins=10, closed="right")]
    assert counts.index(1) == max(k - 1, 0)


@settings(deadline=None)
@given(pairs, st.integers(1, 12))
def test_adaptive_bins_are_runs_of_equal_size(rows, m):
    c, y = columns(rows)
    n = len(c)
    order = np.argsort(c)
    tied = np.array([y[c == value].mean() for value in c])
    bins = [order[i * n // m : (i + 1) * n // m] for i in range(m)]
    expected = sum(abs((tied[b] - c[b]).sum()) for b in bins) / n
    assert ace(c, y, n_bins=m) == pytest.approx(expected, abs=1e-12)
    assert ace(c, y, n_bins=m, ranking=Ranking.by("c", c)) == ace(c, y, n_bins=m)


def test_brier_of_certainty():
    assert brier([1, 0, 1], [1, 0, 0]) == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("confidence", "outcome", "expected"),
    [
        (1, 1, 0),
        (0, 0, 0),
        (1, 0, -math.log(1e-15)),
        (0, 1, -math.log(1e-15)),
        (1e-20, 0, 1e-20),  # 1 - 1e-20 is 1, and its logarithm 0
        (1e-20, 1, -math.log(1e-15)),
        (1 - 2**-53, 0, -math.log(1e-15)),
        (0.25, 0, -math.log(0.75)),
    ],
)
def test_likelihood_of_one_row(confidence, outcome, expected):
    assert nll([confidence], [outcome]) == pytest.approx(expected, rel=1e-12, abs=1e-300)


def test_the_inputs_are_left_as_they_were():
    confidence, outcome = np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 0.0])
    for metric in (nll, brier, c_slope, ace, ece):
        metric(confidence, outcome)
    assert confidence.tolist() == [0, 0.5, 1]
    assert outcome.tolist() == [0, 1, 0]


def test_the_index_is_the_mean_in_ten_bins():
    c, y = [0.05, 0.31, 0.62, 0.97], [0, 1, 0, 1]
    assert ece_brier_mean(c, y) == pytest.approx((ece(c, y, n_bins=10) + brier(c, y)) / 2)


@settings(deadline=None)
@given(pairs)
def test_the_slope_is_that_of_a_straight_line(rows):
    confidence, outcome = columns(rows)
    if np.ptp(confidence) < 1e-3:
        return
    assert c_slope(confidence, outcome) == pytest.approx(np.polyfit(confidence, outcome, 1)[0], abs=1e-6)


@pytest.mark.parametrize(("scale", "slope"), [(1, 1), (0.5, 2), (1e-200, 1e200)])
def test_a_slope_above_one_is_timid(scale, slope):
    assert c_slope([0, scale], [0, 1]) == pytest.approx(slope)


def test_constant_confidence_has_no_slope():
    assert np.isnan(c_slope([0.1, 0.1, 0.1], [0, 1, 1]))


def test_only_labels_with_a_positive_count():
    result = ece_plus([[0.2, 0.9], [0.6, 0.1]], [[1, 0], [1, 0]])
    assert result.ece_plus == pytest.approx(0.6)
    assert np.isnan(result.per_label[1])
    assert result.n_labels_used == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: ece([1.1], [1]),
        lambda: ece([0.5], [0.5]),
        lambda: ece([0.5], [1, 0]),
        lambda: ece([], []),
        lambda: ece([0.5], [1], n_bins=0),
        lambda: ece([0.5], [1], n_bins=10.0),
        lambda: ece([0.5], [1], n_bins=True),
        lambda: ece([0.5], [1], closed="both"),
        lambda: mce([np.nan], [1]),
        lambda: ace([0.5], [1], n_bins=-1),
        lambda: brier([None], [1]),
        lambda: nll([0.5], [1], eps=0),
        lambda: nll([0.5], [1], eps=2),
        lambda: c_slope([0.5, 0.5], [0, 3]),
        lambda: ece_plus([[0.5, 0.5]], [[1]]),
        lambda: ece_plus([[0.5, 0.5]], [[1, 0], [0, 1]]),
        lambda: ece_plus([0.5], [1]),
        lambda: ece_brier_mean([0.5], [1], n_bins="10"),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
