import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.audit.metrics.prediction_sets import set_metrics
from demur.uncertainty.checks import InvalidInput

SETS, TRUTH = [[0], [1, 2], [], [0, 1, 2]], [0, 0, 1, 2]


def test_shares_by_hand():
    overall = set_metrics(SETS, TRUTH).overall
    assert (overall.n, overall.coverage, overall.average_set_size) == (4, 0.5, 1.5)
    assert (overall.empty_rate, overall.singleton_rate) == (0.25, 0.25)
    assert overall.hit_rate is None


@pytest.mark.parametrize(
    ("votes", "truth", "majority", "hit"),
    [([2, 2, 0], 0, 1, 1), ([2, 2, 0], 1, 0, 1), ([2, 2, 0], 2, 0, 0), ([0, 0, 4], 2, 1, 1)],
)
def test_votes(votes, truth, majority, hit):
    overall = set_metrics([[0]], [truth], counts=[votes]).overall
    assert (overall.majority_vote_accuracy, overall.hit_rate) == (majority, hit)


def test_options_may_have_names():
    result = set_metrics([["yes"], ["no", "yes"]], ["no", "no"], groups=["g", "h"])
    assert {name: group.coverage for name, group in result.groups.items()} == {"g": 0, "h": 1}


@settings(deadline=None)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12), st.data())
def test_a_boolean_array_says_the_same(members, data):
    n = len(members)
    truth = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    groups = data.draw(st.lists(st.sampled_from("ab"), min_size=n, max_size=n))
    listed = [np.flatnonzero(row).tolist() for row in members]
    result = set_metrics(np.array(members), truth, groups=groups)
    assert result == set_metrics(listed, truth, groups=groups)
    for name, summary in result.groups.items():
        rows = [i for i in range(n) if groups[i] == name]
        alone = set_metrics([listed[i] for i in rows], [truth[i] for i in rows]).overall
        assert summary.coverage == pytest.approx(alone.coverage)
        assert summary.average_set_size == pytest.approx(alone.average_set_size)


@pytest.mark.parametrize(
    "call",
    [
        lambda: set_metrics([], []),
        lambda: set_metrics([[0]], [0, 1]),
        lambda: set_metrics([[0, 0]], [0]),
        lambda: set_metrics([0], [0]),
        lambda: set_metrics(["a"], ["a"]),
        lambda: set_metrics([[0]], [None]),
        lambda: set_metrics([[None]], [0]),
        lambda: set_metrics([[0]], [0], groups=["a", "b"]),
        lambda: set_metrics([[0]], [0], groups=[None]),
        lambda: set_metrics([[0]], [3], counts=[[1, 2]]),
        lambda: set_metrics([[0]], [-1], counts=[[1, 2]]),
        lambda: set_metrics([[0]], [0], counts=[[1, -2]]),
        lambda: set_metrics([[0]], [0], counts=[[1, 0.5]]),
        lambda: set_metrics([[0]], [0], counts=[[1], [2]]),
        lambda: set_metrics([[5]], [0], counts=[[1, 2]]),
        lambda: set_metrics(np.array([[True]]), [1]),
    ],
)
def test_bad_input(call):
    with pytest.raises(InvalidInput):
        call()
