import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.policies.conformal import conformal_quantile
from demur.policies.mondrian import mondrian_quantiles, mondrian_sets
from demur.uncertainty.checks import InvalidInput


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from(["a", 7, None, (1, 2)])), min_size=1, max_size=60))
def test_each_group_is_calibrated_by_itself(rows):
    scores, groups = [row[0] for row in rows], [row[1] for row in rows]
    for name, quantile in mondrian_quantiles(scores, groups, 0.2).items():
        own = [score for score, group in rows if group == name]
        assert quantile == conformal_quantile(own, 0.2)
        assert (len(own) < 4) == (quantile == np.inf)  # ceil(1 / alpha) - 1


def test_all_groups_may_be_one():
    assert mondrian_quantiles([0.1, 0.2, 0.3], np.array([1, 1, 1]), 0.5) == {1: 0.2}


@pytest.mark.parametrize(
    ("quantile", "members"), [(np.inf, [0, 1, 2]), (-np.inf, []), (0.5, [0, 1]), (0.1, [0]), (0.0, [])]
)
def test_sets_are_inclusive_and_a_quantile_may_be_infinite(quantile, members):
    assert mondrian_sets([[0.1, 0.5, 0.9]], ["a"], {"a": quantile}) == [members]


def test_a_group_that_was_not_calibrated_is_full_or_refused():
    rows, groups = [[0.1, 0.9], [0.1, 0.9]], ["a", "b"]
    assert mondrian_sets(rows, groups, {"a": 0.5}) == [[0], [0, 1]]
    with pytest.raises(InvalidInput, match="'b' was not calibrated"):
        mondrian_sets(rows, groups, {"a": 0.5}, unseen="raise")
    assert mondrian_sets(rows, ["a", "a"], {"a": 0.5}, unseen="raise") == [[0], [0]]


@pytest.mark.parametrize(
    "change",
    [
        {"groups": ["a"]},
        {"groups": "ab"},
        {"groups": None},
        {"groups": [["a"], ["b"]]},
        {"groups": ["a", float("nan")]},
        {"quantiles": {"a": float("nan")}},
        {"quantiles": {"a": None}},
        {"option_scores": [[0.1], [0.2, 0.3]]},
        {"unseen": "empty"},
    ],
)
def test_bad_sets(change):
    good = {"option_scores": [[0.1], [0.2]], "groups": ["a", "a"], "quantiles": {"a": 0.5}}
    with pytest.raises(InvalidInput):
        mondrian_sets(**{**good, **change})


@pytest.mark.parametrize(
    ("scores", "groups", "alpha"),
    [([], [], 0.1), ([0.1], ["a", "b"], 0.1), ([0.1], ["a"], 1.0), ([np.inf], ["a"], 0.1), ([0.1], [{}], 0.1)],
)
def test_bad_quantiles(scores, groups, alpha):
    with pytest.raises(InvalidInput):
        mondrian_quantiles(scores, groups, alpha)


def test_the_promise_holds_in_the_harder_group_where_one_quantile_for_all_breaks_it():
    """True scores are uniform up to 0.5 in the easy group and up to 1 in the hard one, which is rare."""
    rng = np.random.default_rng(0)
    covered = {"easy": [], "hard": []}
    covered_by_one = []
    top = {"easy": 0.5, "hard": 1.0}
    groups = ["easy"] * 160 + ["hard"] * 40
    for _ in range(1000):
        scores = rng.random(200) * [top[name] for name in groups]
        for name, quantile in mondrian_quantiles(scores, groups, 0.1).items():
            covered[name].append(min(1, quantile / top[name]))
        covered_by_one.append(min(1, conformal_quantile(scores, 0.1)))
    for own in covered.values():
        assert np.mean(own) >= 0.9 - 3 * np.std(own) / np.sqrt(1000)
    assert np.mean(covered_by_one) < 0.7
