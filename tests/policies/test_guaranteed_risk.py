import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from demur.policies.guaranteed_risk import bisection_steps, guaranteed_risk, searched_limits, widest_safe_limit
from demur.policies.risk_bound import binomial_upper_bound

ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 1)), min_size=1, max_size=80)


@pytest.mark.parametrize(
    ("n", "steps"),
    [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (1024, 10), (1025, 11), (2**49, 49), (2**49 + 1, 50)],
)
def test_steps_are_counted_in_integers(n, steps):
    assert bisection_steps(n) == steps


@settings(deadline=None)
@given(ROWS, st.floats(0.05, 0.95))
def test_what_is_reported_is_what_the_limit_accepts(rows, target):
    confidence, errors = np.array(rows, dtype=np.float64).T
    found = guaranteed_risk(confidence, errors, target, delta=0.2)
    for limit in (found, found.last_iterate) if found.feasible else (found.last_iterate,):
        accepted = confidence >= limit.threshold
        assert limit.coverage == accepted.mean()
        assert limit.risk == errors[accepted].mean()
        level = 0.2 / bisection_steps(len(rows))
        assert limit.bound == binomial_upper_bound(int(errors[accepted].sum()), int(accepted.sum()), level)
    if found.feasible:
        assert found.bound < target
    else:
        assert found.threshold == np.inf
        assert found.coverage == 0
        assert np.isnan([found.risk, found.bound]).all()
        assert found.last_iterate.bound >= target


@settings(deadline=None)
@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    first, second = (guaranteed_risk(*np.array(order).T, 0.4) for order in (rows, shuffled))
    assert (first.threshold, first.last_iterate) == (second.threshold, second.last_iterate)


def test_ties_are_accepted_and_counted_whole():
    errors = np.zeros(100)
    errors[0] = 1  # by position it would fall outside the accepted half
    found = guaranteed_risk(np.full(100, 0.5), errors, 0.2)
    assert found.feasible
    assert (found.threshold, found.coverage, found.risk) == (0.5, 1.0, 0.01)


def test_the_last_iterate_may_miss_the_target_where_an_earlier_one_met_it():
    errors = np.r_[np.ones(33), np.zeros(67)]  # the second half is right, a little more is not
    found = guaranteed_risk(np.arange(100.0), errors, 0.13)
    assert found.last_iterate.bound >= 0.13
    assert found.bound < 0.13


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_rows_promise_nothing(n):
    assert not guaranteed_risk(np.arange(n), np.zeros(n), 0.3).feasible


def test_a_single_row_can_carry_a_weak_promise():
    found = guaranteed_risk([0.7], [0], 0.6, delta=0.5)
    assert (found.threshold, found.bound) == (0.7, 0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"confidence": []},
        {"confidence": [0.1, float("nan")]},
        {"errors": [0, 2]},
        {"errors": [0]},
        {"target_risk": 1.1},
        {"target_risk": None},
        {"delta": 0},
        {"delta": 1},
    ],
)
def test_bad_input(change):
    good = {"confidence": [0.1, 0.2], "errors": [0, 1], "target_risk": 0.5}
    with pytest.raises(ValueError, match=next(iter(change))):
        guaranteed_risk(**{**good, **change})


def test_the_promise_holds():
    """Confidence is uniform and an answer is wrong with probability (1 - c) / 2, so above t a quarter of 1 - t is."""
    rng = np.random.default_rng(0)
    limits = []
    for _ in range(800):
        confidence = rng.random(400)
        limits.append(guaranteed_risk(confidence, rng.random(400) < (1 - confidence) / 2, 0.15, delta=0.2).threshold)
    answering = np.array(limits)[np.isfinite(limits)]
    assert len(answering) > 700  # else it would be kept by silence
    assert np.sum((1 - answering) / 4 > 0.15) <= 0.2 * 800


def widest(confidence, wrong, target, delta=0.1):
    searched = searched_limits(len(confidence), target, delta)
    return None if searched is None else widest_safe_limit(np.asarray(confidence), np.asarray(wrong), target, searched)


@pytest.mark.parametrize(("n", "target"), [(36, 0.2), (165, 0.05)])
def test_a_promise_that_all_rows_carry_is_found_where_the_surer_half_is_too_few(n, target):
    assert not guaranteed_risk(np.arange(n), np.zeros(n), target, delta=0.1).feasible
    found = widest(np.arange(float(n)), np.zeros(n), target)
    assert (found.coverage, found.risk) == (1, 0)


@pytest.mark.parametrize(("target", "delta"), [(0.2, 0.1), (0.05, 0.1), (0.5, 0.3)])
def test_limits_to_search_are_told_apart_by_tests_that_share_delta(target, delta):
    for n in range(1, 400):
        searched = searched_limits(n, target, delta)
        if searched is None:
            assert binomial_upper_bound(0, n, delta) >= target
            continue
        limits = searched.left_out
        assert limits[0] == 0
        assert list(limits) == sorted(set(limits))
        assert len(limits) <= 2 ** round(delta / searched.level) - 1
        assert binomial_upper_bound(0, n - limits[-1], searched.level) < target
        assert widest(np.arange(float(n)), np.zeros(n), target, delta).coverage == 1


@settings(deadline=None)
@given(ROWS, st.floats(0.05, 0.95))
def test_the_widest_limit_is_reported_as_it_accepts(rows, target):
    confidence, errors = np.array(rows, dtype=np.float64).T
    found = widest(confidence, errors, target, delta=0.2)
    if found is not None:
        accepted = confidence >= found.threshold
        assert (found.coverage, found.risk) == (accepted.mean(), errors[accepted].mean())
        assert found.bound < target


@pytest.mark.slow
@pytest.mark.parametrize(
    "profile",
    [
        [1.01] * 8,  # as many errors everywhere, a hair above the target
        [2.2, 1.9, 1.6, 1.3, 0.9, 0.6, 0.3, 0],
        [0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1],  # the surest are worse
        [2.0, 1.6, 0.5, 1.4, 1.5, 0.1, 1.3, 1.1],  # the worst of 60 random steps uphill from the first
    ],
)
def test_the_promise_of_the_widest_limit_holds(profile):
    target, delta, n, draws = 0.2, 0.1, 60, 1_500
    risks, rng, broken = target * np.array(profile), np.random.default_rng(0), 0
    grid = (np.arange(8_000) + 0.5) / 8_000
    for _ in range(draws):
        confidence = rng.random(n)
        found = widest(confidence, (rng.random(n) < risks[(8 * confidence).astype(int)]).astype(float), target, delta)
        if found is not None:
            broken += risks[(8 * grid[grid >= found.threshold]).astype(int)].mean() > target
    assert broken <= binom.ppf(0.999, draws, delta)
