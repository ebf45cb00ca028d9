import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.tournament import (
    expected_score,
    positive_probability,
    rating_uncertainty,
    run_tournament,
    update_ratings,
)


@pytest.mark.parametrize(
    ("a", "b", "p"),
    [(1000, 1000, 0.5), (1400, 1000, 10 / 11), (1000, 1400, 1 / 11), (1e308, -1e308, 1.0), (-1e9, 1e9, 0.0)],
)
def test_expected_score(a, b, p):
    assert expected_score(a, b) == pytest.approx(p, abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, "1000", True, [1000]])
def test_a_rating_is_a_number(bad):
    with pytest.raises(InvalidInput):
        expected_score(bad, 1000)


@pytest.mark.parametrize(
    ("score", "gain"), [(1, 16.0), (0.5, 0.0), (0, -16.0), (None, 0.0), (True, 16.0), (False, -16.0)]
)
def test_update(score, gain):
    before = np.array([1000.0, 1000.0, 900.0])
    after = update_ratings(before, [(0, 1, score)])
    assert after.tolist() == [1000 + gain, 1000 - gain, 900]
    assert before.tolist() == [1000, 1000, 900]


def test_a_round_without_matches_moves_nothing():
    assert update_ratings([1000, 900], []).tolist() == [1000, 900]
    assert update_ratings([1000, 900], [(0, 1, 1)], k=0).tolist() == [1000, 900]


@pytest.mark.parametrize(
    "matches",
    [
        [(0, 0, 1)],
        [(0, 3, 1)],
        [(-1, 0, 1)],
        [(0, 1, 1), (1, 2, 0)],
        [(0, 1, None), (1, 2, 0)],  # a match without a verdict was a match
        [(0, 1, 2)],
        [(0, 1, 0.7)],
        [(0, 1, math.nan)],
        [(0, 1, "win")],
        [(0, 1)],
        [(0, 1, 1, 1)],
        [(0.0, 1, 1)],
        [(True, 0, 1)],
        ["011"],
        "011",
        [None],
        None,
    ],
)
def test_a_round_that_cannot_be_is_refused(matches):
    with pytest.raises(InvalidInput):
        update_ratings([1000, 1000, 1000], matches)


@pytest.mark.parametrize(("ratings", "k"), [([], 32), ([math.nan, 1], 32), ([1, 2], -1), ([1, 2], math.inf)])
def test_update_refuses(ratings, k):
    with pytest.raises(InvalidInput):
        update_ratings(ratings, [], k=k)


@settings(deadline=None)
@given(st.lists(st.floats(0, 3000), min_size=2, max_size=12), st.floats(0, 100), st.data())
def test_updates_preserve_the_sum(ratings, k, data):
    order = data.draw(st.permutations(range(len(ratings))))
    scores = st.sampled_from([0, 0.5, 1, None])
    matches = [(i, j, data.draw(scores)) for i, j in zip(order[::2], order[1::2], strict=False)]
    assert update_ratings(ratings, matches, k=k).sum() == pytest.approx(sum(ratings), abs=1e-8)


def test_probability_and_uncertainty_of_a_rating():
    ratings = [1000.0, 1400.0, 600.0]
    np.testing.assert_allclose(positive_probability(ratings), [1 / 2, 10 / 11, 1 / 11])
    np.testing.assert_allclose(rating_uncertainty(ratings), [1, 2 / 11, 2 / 11])
    np.testing.assert_allclose(positive_probability(ratings, reference=1400), [1 / 11, 1 / 2, 1 / 101])
    with pytest.raises(InvalidInput):
        positive_probability([])
    with pytest.raises(InvalidInput):
        positive_probability(ratings, reference=math.nan)


@pytest.mark.parametrize("scheduler", ["random", "swiss", "graph"])
def test_the_stronger_end_up_higher(scheduler):
    rng = np.random.default_rng(0)
    strengths = rng.permutation(24)
    drawn = [rng.permutation(24).tolist() for _ in range(20)]
    ratings = run_tournament(strengths, 20, scheduler=scheduler, permutations=drawn)
    assert spearmanr(ratings, strengths).statistic > 0.85
    assert ratings.sum() == pytest.approx(24_000)


def test_equals_stay_where_they_are_and_no_round_changes_nothing():
    assert run_tournament([1, 1, 1], 5, scheduler="graph").tolist() == [1000] * 3
    start = [900.0, 1100.0]
    assert run_tournament([1, 2], 0, scheduler="swiss", initial_ratings=start).tolist() == start
    assert run_tournament([1, 2], 1, scheduler="random", permutations=[[1, 0]], k=10).tolist() == [995, 1005]


def test_the_graph_scheduler_remembers_matches_without_a_verdict():
    # 0 and 1 are equal, as are 2 and 3; a scheduler that forgot these matches would repeat them for ever
    ratings = run_tournament([1, 1, 2, 2], 2, scheduler="graph")
    assert ratings.tolist() == [984, 984, 1016, 1016]


@pytest.mark.parametrize(
    "changes",
    [
        {"strengths": []},
        {"strengths": [1, math.nan, 2]},
        {"rounds": -1},
        {"rounds": 1.0},
        {"scheduler": "fold"},
        {"scheduler": "random"},  # and no permutations
        {"scheduler": "random", "permutations": [[0, 1, 2]] * 2},
        {"scheduler": "random", "permutations": [[0, 1]]},
        {"scheduler": "random", "permutations": [[0, 1, 1]]},
        {"initial_ratings": [1000, 1000]},
        {"k": -1},
        {"group_size": 3},
        {"group_size": 3, "rounds": 0},
    ],
)
def test_a_tournament_that_cannot_be_is_refused(changes):
    with pytest.raises(InvalidInput):
        run_tournament(**{"strengths": [1, 2, 3], "rounds": 1, "scheduler": "swiss", **changes})


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(0, 6), st.sampled_from(["swiss", "graph"]))
def test_a_tournament_preserves_the_sum(strengths, rounds, scheduler):
    total = run_tournament(strengths, rounds, scheduler=scheduler).sum()
    assert total == pytest.approx(1000 * len(strengths), abs=1e-6)
