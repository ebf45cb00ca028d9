import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from demur.policies.learn_then_test import learn_then_test

GRID = np.arange(1, 21) / 20


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(GRID.tolist()), st.integers(0, 1)), min_size=1, max_size=60),
    st.floats(0.05, 0.95),
)
def test_the_p_values_are_binomial_tails(rows, target):
    u, errors = np.array(rows, dtype=np.float64).T
    tested = learn_then_test(u, errors, GRID, target, delta=0.2)
    for threshold, p_value in zip(GRID, tested.p_values, strict=True):
        accepted = u <= threshold
        assert p_value == pytest.approx(stats.binom.cdf(errors[accepted].sum(), accepted.sum(), target), abs=1e-10)
    assert tested.rejected == [j for j, p in enumerate(tested.p_values) if p <= 0.2 / 20]


def test_a_sequence_stops_at_the_first_limit_that_fails():
    u = np.repeat([0.1, 0.2, 0.3], [50, 5, 500])
    errors = np.repeat([0, 1, 0], [50, 5, 500])
    tested = learn_then_test(u, errors, [0.1, 0.2, 0.3], 0.1, method="fixed_sequence")
    assert tested.p_values[2] < 0.05 < tested.p_values[1]
    assert (tested.rejected, tested.threshold) == ([0], 0.1)
    assert learn_then_test(u, errors, [0.1, 0.2, 0.3], 0.1).rejected == [0, 2]


def test_a_limit_that_accepts_nothing_is_never_rejected():
    tested = learn_then_test([0.5] * 50, [0] * 50, [0.1, 0.5], 0.3, method="fixed_sequence")
    assert tested.p_values[0] == 1
    assert (tested.rejected, tested.threshold) == ([], -np.inf)


@pytest.mark.parametrize(("target", "p_value"), [(0.0, 1.0), (1.0, 0.0)])
def test_the_extreme_targets(target, p_value):
    assert learn_then_test([0.5, 0.5], [0, 1], [0.5], target).p_values.tolist() == [p_value]


@pytest.mark.parametrize(
    "change",
    [
        {"u": [0.1]},
        {"errors": [0, 0.5]},
        {"thresholds": []},
        {"thresholds": [0.2, 0.1]},
        {"thresholds": [0.2, float("inf")]},
        {"target_risk": -0.1},
        {"delta": 1.0},
        {"method": "holm"},
    ],
)
def test_bad_input(change):
    good = {"u": [0.1, 0.2], "errors": [0, 1], "thresholds": [0.1, 0.2], "target_risk": 0.5}
    with pytest.raises(ValueError, match=next(iter(change))):
        learn_then_test(**{**good, **change})


@pytest.mark.parametrize("method", ["bonferroni", "fixed_sequence"])
def test_the_promise_holds(method):
    """The score is uniform and an answer is wrong with probability u / 2, so up to t a quarter of t is."""
    rng = np.random.default_rng(0)
    limits = []
    for _ in range(800):
        u = rng.random(800)
        limits.append(learn_then_test(u, rng.random(800) < u / 2, GRID[5:], 0.15, delta=0.2, method=method).threshold)
    answering = np.array(limits)[np.isfinite(limits)]
    assert len(answering) > 700  # else it would be kept by silence
    assert np.sum(answering / 4 > 0.15 + 1e-12) <= 0.2 * 800
