import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from demur.audit.metrics.intervals import clopper_pearson, effective_n, hajek_interval, wilson
from demur.policies.risk_bound import binomial_upper_bound
from demur.uncertainty.checks import InvalidInput

COUNTS = st.tuples(st.integers(0, 200), st.integers(0, 200))
DELTAS = st.floats(0.001, 0.5)


@settings(deadline=None)
@given(COUNTS, DELTAS)
def test_counts_as_scipy_has_them(counts, delta):
    k, n = counts[0], sum(counts)
    if n == 0:
        return
    for ours, name in ((wilson, "wilson"), (clopper_pearson, "exact")):
        found, want = ours(k, n, delta), binomtest(k, n).proportion_ci(1 - delta, method=name)
        assert (found.lower, found.upper) == pytest.approx((want.low, want.high), abs=1e-9)
        assert 0 <= found.lower <= k / n <= found.upper <= 1
    assert clopper_pearson(k, n, delta).upper == binomial_upper_bound(k, n, delta / 2)


def test_ends_at_none_and_all():
    for function in (wilson, clopper_pearson):
        assert function(0, 30).lower == 0
        assert function(30, 30).upper == 1
    assert math.isnan(wilson(0, 0).lower)
    assert clopper_pearson(0, 0).lower == 0
    assert clopper_pearson(0, 0).upper == 1


@pytest.mark.parametrize("arguments", [(2, 1), (-1, 3), (1.0, 3), (1, 3, 0), (1, 3, 1), (True, 3)])
def test_counts_that_are_refused(arguments):
    for function in (wilson, clopper_pearson):
        with pytest.raises(InvalidInput):
            function(*arguments)


def test_effective_n():
    assert effective_n([3, 3, 0, 3]) == pytest.approx(3)
    assert effective_n([1e308, 1e308]) == pytest.approx(2)
    assert effective_n([1, 1e9]) == pytest.approx(1, abs=1e-8)
    assert math.isnan(effective_n([0, 0]))


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=30), st.floats(1e-6, 1e6))
def test_equal_weights_give_the_usual_interval(values, factor):
    found = hajek_interval(values, [factor] * len(values))
    error = np.std(values) / math.sqrt(len(values))
    assert found.estimate == pytest.approx(np.mean(values), abs=1e-12)
    assert found.standard_error == pytest.approx(error, abs=1e-12)
    assert found.upper - found.lower == pytest.approx(2 * norm.isf(0.025) * error, abs=1e-12)
    assert found.n_effective == pytest.approx(len(values))


def test_few_labels():
    none, one = hajek_interval([None, None], [0, 0]), hajek_interval([None, 1], [0, 2])
    assert all(math.isnan(x) for x in (none.estimate, none.lower, none.n_effective))
    assert one.estimate == 1
    assert math.isnan(one.lower)
    assert math.isnan(one.standard_error)
    without_error = hajek_interval([0, 0, 0], [1, 50, 1])
    assert (without_error.lower, without_error.upper) == (0, 0)  # hence `evidence`


def test_the_interval_covers():
    rng, n, covered = np.random.default_rng(0), 2_000, 0
    for _ in range(400):
        truth = rng.random(n) < 0.2
        probability = rng.choice([0.1, 0.5], size=n)
        drawn = rng.random(n) < probability
        found = hajek_interval(truth, drawn / probability)
        covered += found.lower <= 0.2 <= found.upper
    assert 0.92 <= covered / 400 <= 0.98
