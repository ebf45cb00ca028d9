import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.discrimination import error_roc_auc
from audit.selective import prr, prr_areas, rc_auc, rc_curve

ranked_outcomes = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.2, 0.5, 3.0]), st.integers(0, 1)), min_size=2, max_size=40
)


@given(ranked_outcomes, st.randoms(use_true_random=False))
def test_row_order_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    for metric in (rc_auc, lambda risk, u: prr(1 - risk, u)):
        values = [metric(*np.array(order, dtype=np.float64).T[::-1]) for order in (rows, shuffled)]
        np.testing.assert_allclose(*values, atol=1e-12)


@given(ranked_outcomes)
def test_an_increasing_map_of_the_score_changes_nothing(rows):
    u, risk = np.array(rows, dtype=np.float64).T
    for metric in (rc_auc, lambda r, s: prr(1 - r, s), lambda r, s: error_roc_auc(1 - r, s)):
        np.testing.assert_allclose(metric(risk, u), metric(risk, np.exp(u) * 7), atol=1e-12)


@given(ranked_outcomes)
def test_a_constant_score_is_worth_nothing(rows):
    _, risk = np.array(rows, dtype=np.float64).T
    constant = np.ones(len(risk))
    assert rc_auc(risk, constant) == pytest.approx(risk.mean())
    if 0 < risk.mean() < 1:
        assert prr(1 - risk, constant) == pytest.approx(0)
        assert error_roc_auc(1 - risk, constant) == 0.5


def test_a_perfect_score_has_a_ratio_of_one():
    assert prr([1, 1, 0, 1, 0], [0.1, 0.2, 0.8, 0.3, 0.9]) == pytest.approx(1)


def test_rejecting_a_part_looks_at_that_part_alone():
    areas = prr_areas([1, 0, 1, 1], [0.1, 0.9, 0.2, 0.3], max_rejection=0.5)
    assert areas.model == pytest.approx((1 + 0.75) / 2)
    assert np.isnan(prr([1, 0, 1], [0.1, 0.2, 0.3], max_rejection=0.1))  # nothing to reject


def test_the_curve_ends_at_the_mean_risk():
    curve = rc_curve([0, 1, 0, 0], [0.4, 0.1, 0.2, 0.2])
    assert curve.coverage[-1] == 1
    assert curve.risk[-1] == 0.25
