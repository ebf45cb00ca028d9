import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics import selective
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.metrics.weighted_selective import (
    area_shares,
    weighted_n_rc_auc,
    weighted_prr,
    weighted_rc_auc,
    weighted_selective_risk,
)
from demur.uncertainty.checks import InvalidInput

LOSSES = st.integers(0, 1).map(float) | st.sampled_from([0.25, 0.5])
SCORES = st.sampled_from([0.0, 0.2, 0.5]) | st.floats(-1, 1)
ROWS = st.lists(st.tuples(LOSSES, SCORES, st.integers(0, 4)), min_size=1, max_size=40)
FACTORS = st.sampled_from([1e-300, 0.3, 1.0, 7.0, 1e300])


def columns(rows):
    losses, u, weights = np.array(rows, dtype=np.float64).T
    return losses, u, weights


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def rejecting(share):
    return lambda *arguments: weighted_prr(*arguments, max_rejection=share)


METRICS = [weighted_rc_auc, weighted_n_rc_auc, weighted_prr, rejecting(0.5)]


@settings(deadline=None)
@given(ROWS, FACTORS, st.sampled_from([0.01, 0.3, 0.5, 1.0]))
def test_equal_weights_give_the_namesake(rows, factor, most):
    r, u, _ = columns(rows)
    w = np.full(len(r), factor)
    assert_close(weighted_rc_auc(r, u, w), selective.rc_auc(r, u))
    assert_close(weighted_n_rc_auc(r, u, w), selective.n_rc_auc(r, u))
    assert_close(weighted_prr(r, u, w, max_rejection=most), selective.prr(r, u, max_rejection=most))
    assert_close(weighted_prr(1 - r, u, w), weighted_n_rc_auc(r, u, w))


@pytest.mark.parametrize("metric", METRICS)
@settings(deadline=None)
@given(rows=ROWS, factor=FACTORS, random=st.randoms(use_true_random=False))
def test_neither_a_common_factor_nor_the_order_of_rows_changes_anything(metric, rows, factor, random):
    r, u, w = columns(rows)
    found = metric(r, u, w)
    assert_close(metric(r, u, w * factor), found)
    assert_close(metric(*columns(random.sample(rows, len(rows)))), found)
    assert_close(metric(r, Ranking.by("u", u), w), found)


@settings(deadline=None)
@given(ROWS, st.floats(-1, 1))
def test_a_constant_score_ranks_like_chance(rows, u):
    r, _, w = columns(rows)
    same = np.full(len(r), u)
    assert_close(weighted_rc_auc(r, same, w), weighted_mean(r, w))
    found = weighted_prr(r, same, w)
    assert math.isnan(found) or found == pytest.approx(0, abs=1e-9)
    assert math.isnan(found) == (len(set(r[w > 0])) < 2)


@settings(deadline=None)
@given(ROWS, st.sampled_from([0.3, 0.5, 1.0]))
def test_the_area_is_linear_in_the_risks(rows, most):
    r, u, _ = columns(rows)
    a = area_shares(u, max_rejection=most)
    if int(np.floor(most * len(r) + 1e-9)) == 0:
        assert np.isnan(a).all()
    else:
        assert_close(a.sum(), 1)
        assert_close(a @ r, selective.prr_areas(r, u, max_rejection=most).model)


@pytest.mark.parametrize("u", [[0.1, 0.4, 0.2, 0.9, 0.3], [0.2, 0.2, 0.1, 0.2, 0.7], [1.0] * 5])
def test_over_all_draws_the_weighted_sum_is_exactly_the_area_of_all_labels(u):
    risks, probability = np.array([1.0, 0, 0.3, 1, 0]), np.array([0.5, 0.2, 0.9, 0.4, 1.0])
    total = 0.0
    for labels in product([0, 1], repeat=5):
        chance = math.prod(pi if x else 1 - pi for x, pi in zip(labels, probability, strict=True))
        total += chance * float((np.array(labels) / probability * area_shares(u)) @ risks)
    assert total == pytest.approx(selective.rc_auc(risks, u))


def by_definition(r, u, w, m):
    """Areas of METHODS 9.2, step by step."""
    n = len(r)
    order = np.argsort(u, kind="stable")
    a = np.zeros(n)
    for rank, row in enumerate(order, start=1):
        a[row] = sum(1 / k for k in range(max(rank, n - m + 1), n + 1)) / m
    a = np.array([a[u == value].mean() for value in u])
    model, chance = (w * a) @ r / (w @ a), w @ r / w.sum()
    known = sorted((risk, n * weight / w.sum()) for risk, weight in zip(r, w, strict=True) if weight)
    oracle = 0.0
    for k in range(n - m + 1, n + 1):
        left, area = float(k), 0.0
        for risk, width in known:
            area += risk * min(width, left)
            left -= min(width, left)
        oracle += area / k / m
    return (chance - model) / (chance - oracle)


@settings(deadline=None)
@given(ROWS, st.sampled_from([0.3, 0.5, 1.0]))
def test_the_ratio_is_that_of_the_definition(rows, most):
    r, u, w = columns(rows)
    m = int(np.floor(most * len(r) + 1e-9))
    found = weighted_prr(-r, u, w, max_rejection=most)
    if m < 2 or len(set(r[w > 0])) < 2:
        assert math.isnan(found)
    else:
        assert_close(found, by_definition(r, u, w, m))


@settings(deadline=None)
@given(ROWS, st.sampled_from([-math.inf, 0.2, 0.5, math.inf]))
def test_coverage_is_that_of_all_rows_and_risk_that_of_the_labelled(rows, threshold):
    r, u, w = columns(rows)
    found = weighted_selective_risk(u, [x if k else None for x, k in zip(r, w, strict=True)], w, threshold)
    answered = u <= threshold
    assert found.coverage == answered.mean()
    assert (found.n_answered, found.n_labelled) == (answered.sum(), (w[answered] > 0).sum())
    assert_close(found.risk, weighted_mean(r[answered], w[answered]) if answered.any() else math.nan)


@pytest.mark.parametrize("metric", [*METRICS, lambda r, u, w: weighted_selective_risk(u, r, w, 0.5).risk])
def test_what_has_no_label_is_not_read_but_its_score_is_checked(metric):
    u = [0.1, 0.4, 0.2, 0.9]
    assert math.isnan(metric([None] * 4, u, [0] * 4))
    assert metric([0, 1, None, 1], u, [1, 2, 0, 1]) == metric(np.array([0, 1, np.nan, 1]), np.array(u), [1, 2, 0, 1])
    for bad in (
        ([0, 1, None, 1], u, [1, 2, 1, 1]),
        ([0, math.inf, None, 1], u, [1, 2, 0, 1]),
        ([0, 1, None, 1], [0.1, 0.4, math.nan, 0.9], [1, 2, 0, 1]),
        ([0, 1, 1], u, [1, 2, 1]),
        ([0, 1, 1, 1], u, [1, 2, -1, 1]),
    ):
        with pytest.raises(InvalidInput):
            metric(*bad)


@pytest.mark.parametrize("metric", [weighted_prr, weighted_rc_auc, weighted_n_rc_auc])
def test_labels_are_no_measure_of_how_right_a_row_is(metric):
    with pytest.raises(InvalidInput, match="which looks like a label"):
        metric([2, 1, 0], [0.1, 0.2, 0.3], [1, 1, 1])


def test_parameters_are_checked_also_without_a_label():
    for call in (
        lambda: weighted_prr([None], [0.5], [0], max_rejection=0),
        lambda: weighted_selective_risk([0.5], [None], [0], math.nan),
        lambda: weighted_selective_risk([0.5], [1.5], [1], 1),
    ):
        with pytest.raises(InvalidInput):
            call()


def test_labels_of_which_one_stands_for_as_good_as_all_rows_rank_nothing():
    assert math.isnan(weighted_n_rc_auc([0, 1], [0.1, 0.2], [1e-290, 1]))
