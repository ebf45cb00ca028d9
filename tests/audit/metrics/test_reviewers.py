import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.reviewers import reviewer_rates, rogan_gladen
from demur.uncertainty.checks import InvalidInput

SHARE = st.floats(0, 1)


@pytest.mark.parametrize(
    ("verdict", "truth", "weights", "rates"),
    [
        ([1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1], (0.5, 2, 0.5, 2)),
        ([1, 0, 0, 0], [1, 1, 0, 0], [3, 1, 1, 1], (0.75, 1.6, 1, 2)),
        ([1, 1], [1, 1], [1, 1], (1, 2, math.nan, math.nan)),  # nothing was right: no specificity
        ([0], [0], [2], (math.nan, math.nan, 1, 1)),
        ([None, 1, "unread"], [None, 1, 7], [0, 1, 0], (1, 1, math.nan, math.nan)),
        ([None], [None], [0], (math.nan,) * 4),
        ([1, 0], [1, 1], [1e308, 1e308], (0.5, 2, math.nan, math.nan)),
    ],
)
def test_reviewer_rates(verdict, truth, weights, rates):
    assert astuple(reviewer_rates(verdict, truth, weights)) == pytest.approx(rates, nan_ok=True)


@pytest.mark.parametrize(
    ("verdict", "truth", "weights"),
    [
        ([], [], []),
        ([None], [1], [1]),
        ([1], [None], [1]),
        ([2], [1], [1]),
        ([1], [0.5], [1]),
        ([1], [1, 0], [1, 1]),
        ([1], [1], [-1]),
        (1, [1], [1]),
    ],
)
def test_reviewer_rates_refuses(verdict, truth, weights):
    with pytest.raises(InvalidInput):
        reviewer_rates(verdict, truth, weights)


@given(SHARE, st.floats(0.51, 1), st.floats(0.51, 1))
def test_the_correction_undoes_what_reviewers_do(risk, sensitivity, specificity):
    seen = min(1.0, risk * sensitivity + (1 - risk) * (1 - specificity))
    found = rogan_gladen(seen, 100, sensitivity, 50, specificity, 50)
    assert found.estimate == pytest.approx(risk, abs=1e-9)
    assert 0 <= found.lower <= found.clipped <= found.upper <= 1


def test_what_the_methods_say_of_a_small_risk():
    seen = 0.02 * 0.9 + 0.98 * 0.03
    assert seen == pytest.approx(0.0474)
    assert rogan_gladen(seen, 400, 0.9, 60, 0.97, 200).estimate == pytest.approx(0.02)


def test_reviewers_who_never_err_leave_the_usual_interval():
    found = rogan_gladen(0.3, 100, 1, 1, 1, 1)
    assert found.estimate == 0.3
    assert found.standard_error == pytest.approx(math.sqrt(0.3 * 0.7 / 100))


def test_an_estimate_may_lie_below_zero():
    found = rogan_gladen(0.01, 100, 0.9, 60, 0.97, 200)
    assert found.estimate < 0
    assert (found.clipped, found.lower) == (0, 0)
    assert 0 <= found.upper <= 1


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.5, 0.5), (0.3, 0.7), (0.2, 0.7), (0, 1), (0, 0)])
def test_reviewers_no_better_than_chance_tell_nothing(sensitivity, specificity):
    assert all(map(math.isnan, astuple(rogan_gladen(0.3, 100, sensitivity, 50, specificity, 50))))


@pytest.mark.parametrize(
    "changes",
    [{"rate": 1.1}, {"rate": math.nan}, {"n": 0}, {"n": -1}, {"sensitivity": True}, {"n_specificity": 0}, {"delta": 0}],
)
def test_rogan_gladen_refuses(changes):
    good = {"rate": 0.1, "n": 9, "sensitivity": 0.9, "n_sensitivity": 9, "specificity": 0.9, "n_specificity": 9}
    with pytest.raises(InvalidInput):
        rogan_gladen(**{**good, **changes})


def test_the_interval_covers_the_risk():
    rng = np.random.default_rng(0)
    risk, se, sp, n, n_se, n_sp, tries = 0.15, 0.85, 0.95, 600, 150, 200, 600
    covered = 0
    for _ in range(tries):
        rate = rng.binomial(n, risk * se + (1 - risk) * (1 - sp)) / n
        found = rogan_gladen(rate, n, rng.binomial(n_se, se) / n_se, n_se, rng.binomial(n_sp, sp) / n_sp, n_sp)
        covered += found.lower <= risk <= found.upper
    assert covered / tries == pytest.approx(0.95, abs=0.03)


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30), st.floats(1e-6, 1e6))
def test_equal_weights_count(rows, weight):
    verdict, truth = zip(*rows, strict=True)
    found = reviewer_rates(list(verdict), list(truth), [weight] * len(rows))
    wrong = [v for v, t in rows if t]
    right = [not v for v, t in rows if not t]
    for share, n, hits in (
        (found.sensitivity, found.n_sensitivity, wrong),
        (found.specificity, found.n_specificity, right),
    ):
        assert share == pytest.approx(np.mean(hits) if hits else math.nan, nan_ok=True)
        assert n == pytest.approx(len(hits) or math.nan, nan_ok=True)
