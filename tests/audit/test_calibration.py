import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.calibration import brier, calibration_bins, ece

pairs = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=50)


@given(pairs, st.integers(1, 20))
def test_every_row_is_in_exactly_one_bin(rows, n_bins):
    confidence, outcome = np.array(rows, dtype=np.float64).T
    for closed in ("left", "right"):
        bins = calibration_bins(confidence, outcome, n_bins=n_bins, closed=closed)
        assert sum(b.count for b in bins) == len(rows)


@given(pairs)
def test_one_bin_measures_the_gap_of_the_means_and_more_bins_find_more(rows):
    confidence, outcome = np.array(rows, dtype=np.float64).T
    gap = abs(confidence.mean() - outcome.mean())
    assert ece(confidence, outcome, n_bins=1) == pytest.approx(gap, abs=1e-12)
    assert ece(confidence, outcome) >= gap - 1e-12


@pytest.mark.parametrize("k", range(11))
def test_tenths_fall_into_the_bin_that_they_open(k):
    counts = [b.count for b in calibration_bins([k / 10], [1], n_bins=10)]
    assert counts.index(1) == min(k, 9)


def test_brier_of_certainty():
    assert brier([1, 0, 1], [1, 0, 0]) == pytest.approx(1 / 3)
