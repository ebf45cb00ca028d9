import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from demur.audit.metrics import discrimination
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.weighted_discrimination import (
    weighted_au_prc,
    weighted_error_au_prc,
    weighted_error_roc_auc,
    weighted_roc_auc,
)
from demur.uncertainty.checks import InvalidInput

ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([-1.0, 0.0, 0.3]) | st.floats(-2, 2), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)
FACTORS = st.sampled_from([1e-300, 0.3, 1.0, 7.0, 1e300])


def trapezoid(function):
    return lambda *arguments: function(*arguments, rule="trapezoid")


PAIRS = [
    (weighted_roc_auc, discrimination.roc_auc),
    (weighted_error_roc_auc, discrimination.error_roc_auc),
    (weighted_au_prc, discrimination.au_prc),
    (weighted_error_au_prc, discrimination.error_au_prc),
    (trapezoid(weighted_au_prc), trapezoid(discrimination.au_prc)),
    (trapezoid(weighted_error_au_prc), trapezoid(discrimination.error_au_prc)),
]


def columns(rows):
    labels, scores, weights = np.array(rows, dtype=np.float64).T
    return labels, scores, weights


def assert_close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("metric", "namesake"), PAIRS)
@settings(deadline=None)
@given(rows=ROWS, factor=FACTORS, random=st.randoms(use_true_random=False))
def test_the_identities(metric, namesake, rows, factor, random):
    y, s, w = columns(rows)
    assert_close(metric(y, s, np.full(len(y), factor)), namesake(y, s))
    found = metric(y, s, w)
    assert_close(metric(y, s, w * factor), found)
    assert_close(metric(*columns(random.sample(rows, len(rows)))), found)
    assert_close(metric(y, Ranking.by("s", s), w), found)
    known = w > 0
    if known.any():
        times = w[known].astype(int)
        assert_close(found, namesake(np.repeat(y[known], times), np.repeat(s[known], times)))
        assert_close(found, metric(y[known], s[known], w[known]))
    else:
        assert math.isnan(found)


@pytest.mark.slow
@settings(deadline=None)
@given(ROWS)
def test_the_areas_are_those_of_scikit_learn(rows):
    y, s, w = columns(rows)
    if 0 < w @ y < w.sum():
        assert_close(weighted_roc_auc(y, s, w), roc_auc_score(y, s, sample_weight=w))
    if w @ y:
        assert_close(weighted_au_prc(y, s, w), average_precision_score(y, s, sample_weight=w))


@pytest.mark.parametrize(("metric", "namesake"), PAIRS)
def test_what_has_no_label_is_not_read(metric, namesake):
    scores = [0.1, 0.9, 0.4, 2.0]
    assert metric([0, 1, 1, None], scores, [1, 1, 1, 0]) == pytest.approx(namesake([0, 1, 1], scores[:3]))
    assert math.isnan(metric([None] * 4, scores, [0] * 4))
    for bad in (
        ([0, 1, None, 1], scores, [1] * 4),
        ([0, 1, 2, 1], scores, [1] * 4),
        ([0, 1, None, 1], [0.1, 0.9, math.nan, 2], [1, 1, 0, 1]),
        ([0, 1, 1, 1], scores, [1, 1, -1, 1]),
        ([0, 1, 1], scores, [1, 1, 1]),
    ):
        with pytest.raises(InvalidInput):
            metric(*bad)


def test_weights_at_the_ends_of_floats():
    w = [1e-8, 1e299, 1e299, 1e-8]
    assert weighted_roc_auc([1, 0, 0, 1], [2, 1, 0, 0], w) == pytest.approx((1 + 0.25) / 2)
    assert weighted_au_prc([1, 0, 0, 1], [2, 1, 0, 0], w) == pytest.approx(0.5)


def test_the_rule_is_checked_also_without_a_label():
    with pytest.raises(InvalidInput):
        weighted_au_prc([None], [0.5], [0], rule="area")
