import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from demur.audit.metrics.correlation import benefit_z, kendall_tau_b, spearman, spearman_per_label, spearman_pooled
from demur.uncertainty.checks import InvalidInput

numbers = st.sampled_from([0.0, 1.0, 2.0]) | st.floats(-3, 3)
pairs = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=40)
flags = st.lists(st.tuples(numbers, st.integers(0, 1)), min_size=2, max_size=40)


def by_hand(a, b):
    """Tau-b and its p-value from all pairs and all tie groups."""
    n, total = len(a), 0
    for i, j in itertools.combinations(range(n), 2):
        total += np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])
    t, s = (np.unique(x, return_counts=True)[1] for x in (a, b))
    every = n * (n - 1) / 2
    tau = total / math.sqrt((every - (t * (t - 1)).sum() / 2) * (every - (s * (s - 1)).sum() / 2))

    def spread(c):
        return (c * (c - 1) * (2 * c + 5)).sum()

    variance = (n * (n - 1) * (2 * n + 5) - spread(t) - spread(s)) / 18
    variance += (t * (t - 1)).sum() * (s * (s - 1)).sum() / (2 * n * (n - 1))
    if n > 2:
        variance += (t * (t - 1) * (t - 2)).sum() * (s * (s - 1) * (s - 2)).sum() / (9 * n * (n - 1) * (n - 2))
    return tau, math.erfc(abs(total) / math.sqrt(variance) / math.sqrt(2))


@settings(deadline=None)
@given(pairs)
def test_spearman_is_that_of_scipy(rows):
    a, b = np.array(rows).T
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert np.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


@settings(deadline=None)
@given(pairs | flags)
def test_kendall_agrees_with_the_definition(rows):
    a, b = np.array(rows).T
    for x, y in ((a, b), (b, a)):
        result = kendall_tau_b(x, y)
        if np.ptp(a) == 0 or np.ptp(b) == 0:
            assert np.isnan(result.tau)
            assert np.isnan(result.p_value)
        else:
            assert (result.tau, result.p_value) == pytest.approx(by_hand(x, y), abs=1e-12)


@pytest.mark.parametrize(("b", "tau"), [([1, 2], 1), ([2, 1], -1)])
def test_two_rows(b, tau):
    result = kendall_tau_b([5, 9], b)
    assert result.tau == pytest.approx(tau)
    assert result.p_value == pytest.approx(math.erfc(1 / math.sqrt(2)))


def test_a_third_value_may_come_late():
    rng = np.random.default_rng(0)
    a, b = rng.random(200), np.append(rng.integers(0, 2, 199), 0.5)
    result = kendall_tau_b(a, b)
    assert (result.tau, result.p_value) == pytest.approx(by_hand(a, b))


def test_one_row_has_no_correlation():
    assert np.isnan(spearman([1], [2]))
    assert np.isnan(kendall_tau_b([1], [2]).tau)


def test_a_ranking_against_itself():
    a = np.random.default_rng(0).random(101)
    assert spearman(a, a) == pytest.approx(1)
    assert spearman(a, -a) == pytest.approx(-1)


def test_labels_of_constant_correctness_are_left_out():
    result = spearman_per_label([[0.1, 0.2], [0.3, 0.1]], [[1, 1], [0, 1]])
    assert result.per_label[0] == pytest.approx(-1)
    assert np.isnan(result.per_label[1])
    assert (result.mean, result.n_labels_used) == (pytest.approx(-1), 1)
    nothing = spearman_per_label([[0.1]], [[1]])
    assert np.isnan(nothing.mean)
    assert nothing.n_labels_used == 0


def test_pooled_pairs_are_one_list():
    u, correct = np.random.default_rng(0).random(30), np.arange(30) % 2
    assert spearman_pooled(u, correct) == pytest.approx(spearman(u, correct))


def test_benefits_are_in_standard_deviations():
    z = benefit_z(
        {"auc": [0.1, 0.3], "ece": [0.1, 0.3], "citl": [-0.3, 0.1]}, {"auc": "higher", "ece": "lower", "citl": "zero"}
    )
    assert {name: row.round(12).tolist() for name, row in z.items()} == {
        "auc": [-1, 1],
        "ece": [1, -1],
        "citl": [-1, 1],
    }
    assert benefit_z({"f": [0.1, 0.1, 0.1]}, {"f": "lower"})["f"].tolist() == [0, 0, 0]
    assert benefit_z({"c": [-0.1, 0.1]}, {"c": "zero"})["c"].tolist() == [0, 0]  # no spread in the benefit


@pytest.mark.parametrize(
    "call",
    [
        lambda: spearman([1, 2], [1]),
        lambda: spearman([1, 1], [1, np.nan]),
        lambda: spearman_pooled([1, 2], [0, 2]),
        lambda: spearman_pooled([[1, 2]], [[0, 1]]),
        lambda: spearman_per_label([[1, 2]], [[0], [1]]),
        lambda: spearman_per_label([1, 2], [0, 1]),
        lambda: kendall_tau_b([1, 1], [np.inf, 0]),
        lambda: kendall_tau_b([], []),
        lambda: benefit_z({}, {}),
        lambda: benefit_z({"a": [1, 2]}, {"a": "up"}),
        lambda: benefit_z({"a": [1, 2]}, {"b": "lower"}),
        lambda: benefit_z({"a": [1, 2], "b": [1]}, {"a": "lower", "b": "lower"}),
        lambda: benefit_z({"a": [1, np.nan]}, {"a": "lower"}),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
