import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.pairing import graph_pairs, random_pairs, swiss_pairs


@pytest.mark.parametrize(
    ("permutation", "pairs"),
    [([0], []), ([1, 0], [(1, 0)]), ([2, 0, 1], [(2, 0)]), ([4, 0, 3, 1, 2], [(4, 0), (3, 1)])],
)
def test_random(permutation, pairs):
    assert random_pairs(permutation) == pairs
    assert random_pairs(np.array(permutation)) == pairs


@pytest.mark.parametrize("bad", [[], [1], [0, 0], [0, 2], [-1, 0], [0.0, 1.0], [True, False], None, "01"])
def test_what_is_no_permutation_is_refused(bad):
    with pytest.raises(InvalidInput):
        random_pairs(bad)


@pytest.mark.parametrize(
    ("n", "size", "pairing", "pairs"),
    [
        (1, 8, "fold", []),
        (2, 8, "fold", [(0, 1)]),
        (3, 8, "fold", [(0, 2)]),  # the middle one sits out
        (5, 8, "dutch", [(0, 3), (1, 4)]),
        (4, 2, "fold", [(0, 1), (2, 3)]),
        (4, 2, "dutch", [(0, 1), (2, 3)]),
        (7, 4, "fold", [(0, 3), (1, 2), (4, 6)]),
        (7, 4, "dutch", [(0, 2), (1, 3), (4, 6)]),
        (9, 8, "fold", [(0, 7), (1, 6), (2, 5), (3, 4)]),  # a last group of one
    ],
)
def test_swiss(n, size, pairing, pairs):
    assert swiss_pairs(np.arange(n, 0, -1), group_size=size, pairing=pairing) == pairs
    assert swiss_pairs(np.ones(n), group_size=size, pairing=pairing) == pairs  # equal ratings go by index


@pytest.mark.parametrize(
    "options",
    [{"group_size": 7}, {"group_size": 0}, {"group_size": -2}, {"group_size": 8.0}, {"pairing": "random"}],
)
def test_swiss_refuses(options):
    with pytest.raises(InvalidInput):
        swiss_pairs([1, 2, 3], **options)


@pytest.mark.parametrize("bad", [[], [np.nan, 1], [[1, 2]], None])
def test_swiss_needs_ratings(bad):
    with pytest.raises(InvalidInput):
        swiss_pairs(bad)


@pytest.mark.parametrize(
    ("n", "played", "pairs"),
    [
        (1, [], []),
        (2, [(0, 1)], [(0, 1)]),  # nobody else to meet
        (3, [], [(0, 1)]),
        (4, [(0, 1)], [(0, 2), (1, 3)]),
        (4, [(1, 0), (0, 1)], [(0, 2), (1, 3)]),  # direction and repeats say nothing
        (4, [(0, 1), (1, 2), (2, 3)], [(0, 3), (1, 2)]),  # a chain: the ends are 3 apart
        (5, [(0, 1), (1, 2), (2, 3)], [(0, 4), (1, 3)]),  # no path at all is further than any path
    ],
)
def test_graph(n, played, pairs):
    assert graph_pairs(n, played) == pairs


@pytest.mark.parametrize(
    ("n", "played"),
    [(0, []), (2.0, []), (-1, []), (3, [(0, 0)]), (3, [(0, 3)]), (3, [(-1, 0)]), (3, [(0,)]), (3, [(0, 1, 1)])],
)
def test_graph_refuses(n, played):
    with pytest.raises(InvalidInput):
        graph_pairs(n, played)


@pytest.mark.parametrize("played", [None, 3, "01", ["01"], [None], [(0, 1.0)], [(0, True)]])
def test_graph_needs_pairs_of_players(played):
    with pytest.raises(InvalidInput):
        graph_pairs(3, played)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.sampled_from([2, 4, 8]), st.data())
def test_nobody_meets_twice_or_sits_out_without_need(ratings, size, data):
    n = len(ratings)
    permutation = data.draw(st.permutations(range(n)))
    rounds = [random_pairs(permutation), graph_pairs(n, []), graph_pairs(n, random_pairs(permutation))]
    rounds += [swiss_pairs(ratings, group_size=size, pairing=pairing) for pairing in ("fold", "dutch")]
    for pairs in rounds:
        players = [player for pair in pairs for player in pair]
        assert len(pairs) == n // 2
        assert len(set(players)) == len(players)
