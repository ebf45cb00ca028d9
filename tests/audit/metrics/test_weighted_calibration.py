import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import calibration
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.weighted_calibration import (
    weighted_ace,
    weighted_bins,
    weighted_brier,
    weighted_c_slope,
    weighted_citl,
    weighted_ece,
    weighted_nll,
)
from demur.uncertainty.checks import InvalidInput

confidences = st.floats(0, 1) | st.integers(0, 20).map(lambda k: k / 20)
ROWS = st.lists(st.tuples(confidences, st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=40)
FACTORS = st.sampled_from([1e-300, 0.3, 1.0, 7.0, 1e300])
PAIRS = {
    weighted_ece: calibration.ece,
    weighted_ace: calibration.ace,
    weighted_brier: calibration.brier,
    weighted_nll: calibration.nll,
    weighted_citl: calibration.citl,
    weighted_c_slope: calibration.c_slope,
}


def columns(rows):
    confidence, outcome, weights = np.array(rows, dtype=np.float64).T
    return confidence, outcome, weights


def comparable(metric, confidence):
    """The slope over a span near the end of floats is any number."""
    return (
        metric is not weighted_c_slope or len(confidence) == 0 or np.ptp(confidence) == 0 or np.ptp(confidence) > 1e-6
    )


@pytest.mark.parametrize("metric", PAIRS, ids=lambda metric: metric.__name__)
@settings(deadline=None)
@given(rows=ROWS, factor=FACTORS)
def test_equal_weights_give_the_namesake(metric, rows, factor):
    c, y, _ = columns(rows)
    if comparable(metric, c):
        found = metric(c, y, np.full(len(c), factor))
        np.testing.assert_allclose(found, PAIRS[metric](c, y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("metric", PAIRS, ids=lambda metric: metric.__name__)
@settings(deadline=None)
@given(rows=ROWS, factor=FACTORS, random=st.randoms(use_true_random=False))
def test_neither_a_common_factor_nor_the_order_of_rows_changes_anything(metric, rows, factor, random):
    c, y, w = columns(rows)
    if comparable(metric, c[w > 0]):
        found = metric(c, y, w)
        np.testing.assert_allclose(metric(c, y, w * factor), found, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(metric(*columns(random.sample(rows, len(rows)))), found, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("metric", [metric for metric in PAIRS if metric is not weighted_ace], ids=lambda m: m.__name__)
@settings(deadline=None)
@given(rows=ROWS)
def test_whole_weights_are_repeated_rows(metric, rows):
    c, y, w = columns(rows)
    many, right = (np.repeat(x, w.astype(int)) for x in (c, y))
    if len(many) == 0:
        assert math.isnan(metric(c, y, w))
    elif comparable(metric, many):
        np.testing.assert_allclose(metric(c, y, w), PAIRS[metric](many, right), rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(ROWS, st.integers(1, 12))
def test_adaptive_bins_are_runs_of_all_rows(rows, m):
    c, y, w = columns(rows)
    gaps, n, order = w * (y - c), len(c), np.argsort(c)
    tied = np.array([gaps[c == value].mean() for value in c])
    bins = [order[i * n // m : (i + 1) * n // m] for i in range(m)]
    want = sum(abs(tied[b].sum()) for b in bins) / w.sum() if w.any() else math.nan
    np.testing.assert_allclose(weighted_ace(c, y, w, n_bins=m), want, atol=1e-12)
    np.testing.assert_array_equal(
        weighted_ace(c, y, w, n_bins=m, ranking=Ranking.by("c", c)), weighted_ace(c, y, w, n_bins=m)
    )


@settings(deadline=None)
@given(ROWS, st.integers(1, 20), st.sampled_from(["left", "right"]))
def test_every_row_is_in_exactly_one_bin(rows, n_bins, closed):
    c, y, w = columns(rows)
    bins = weighted_bins(c, y, w, n_bins=n_bins, closed=closed)
    assert [b.n for b in bins] == [b.count for b in calibration.calibration_bins(c, y, n_bins=n_bins, closed=closed)]
    assert sum(b.n_labelled for b in bins) == np.count_nonzero(w)
    assert sum(b.weight for b in bins) == pytest.approx(w.sum())
    assert all(math.isnan(b.accuracy) == math.isnan(b.confidence) == (b.n_labelled == 0) for b in bins)
    gaps = sum(b.weight * abs(b.accuracy - b.confidence) for b in bins if b.n_labelled)
    if w.any():
        assert weighted_ece(c, y, w, n_bins=n_bins, closed=closed) == pytest.approx(gaps / w.sum(), abs=1e-9)


@pytest.mark.parametrize("metric", PAIRS, ids=lambda metric: metric.__name__)
def test_what_has_no_label_is_not_read_but_its_confidence_is_checked(metric):
    c = [0.2, 0.9, 0.6, 0.4]
    found = metric(c, [0, 1, None, "unread"], [1, 3, 0, 0])
    assert found == metric(np.array(c), np.array([0, 1, np.nan, 2]), np.array([1, 3, 0, 0]))
    assert math.isnan(metric(c, [None] * 4, [0] * 4))
    for bad in (
        (c, [0, 1, 1, None], [1] * 4),
        ([0.2, 0.9, 0.6, 1.4], [0, 1, None, None], [1, 3, 0, 0]),
        ([0.2, 0.9, 0.6, math.nan], [0, 1, None, None], [0] * 4),
        (c, [0, 0.5, 0, 0], [1] * 4),
        (c, [0, 1], [1, 1]),
        (c, [0] * 4, [1, 1, 1, -1]),
        (c, [0] * 4, [1, 1, 1, math.nan]),  # a stratum without a completed review
        (c, [0] * 4, [1, 1, 1, 1e-320]),
    ):
        with pytest.raises(InvalidInput):
            metric(*bad)


def test_parameters_are_checked_also_without_a_label():
    for call in (
        lambda: weighted_ece([0.5], [None], [0], n_bins=0),
        lambda: weighted_ece([0.5], [None], [0], closed="both"),
        lambda: weighted_ace([0.5], [None], [0], n_bins=2.0),
        lambda: weighted_nll([0.5], [None], [0], eps=0),
    ):
        with pytest.raises(InvalidInput):
            call()
