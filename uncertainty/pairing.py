"""Who meets whom in the next round of a tournament: three schedulers, each a list of pairs (TOUR 2, 3.2)."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from demur.uncertainty.checks import InvalidInput, finite, whole_number

Pair = tuple[int, int]
Pairing = Literal["fold", "dutch"]

GROUP_SIZE = 8


def random_pairs(permutation: Any) -> list[Pair]:
    """Pair consecutive entries of a permutation of 0..n-1, drawn elsewhere; the last of an odd number sits out."""
    if not isinstance(permutation, Sequence | np.ndarray) or len(permutation) == 0:
        raise InvalidInput("permutation is no list of players, or is empty")
    players = [whole_number("permutation", player) for player in permutation]
    if sorted(players) != list(range(len(players))):
        raise InvalidInput(f"permutation does not hold each of 0..{len(players) - 1} once")
    return list(zip(players[::2], players[1::2], strict=False))


def swiss_pairs(ratings: Any, *, group_size: int = GROUP_SIZE, pairing: Pairing = "fold") -> list[Pair]:
    """Pair players of similar rating: sort by rating, highest first (ties by index), cut into groups, pair inside.

    In a group of g, player i meets g - 1 - i (`fold`) or i + g/2 (`dutch`, the upper half against the lower; TOUR
    gives this name to the fold). The last group may be smaller; if it is odd, its middle player sits out.
    """
    size = even_group(group_size)
    if pairing not in ("fold", "dutch"):
        raise InvalidInput(f"pairing is {pairing!r}; it is 'fold' or 'dutch'")
    order = np.argsort(-finite("ratings", ratings), kind="stable").tolist()
    pairs: list[Pair] = []
    for start in range(0, len(order), size):
        group = order[start : start + size]
        half = len(group) // 2
        upper, lower = group[:half], group[len(group) - half :]
        pairs += zip(upper, lower if pairing == "dutch" else lower[::-1], strict=True)
    return pairs


def graph_pairs(n: Any, played: Any) -> list[Pair]:
    """Pair the players that are furthest apart in the graph of matches `played` so far, again and again.

    Distance is the number of matches on the shortest path, n without one; ties by (i, j) ascending.
    """
    count = whole_number("n", n, least=1)
    edges = _edges(played, count)
    if edges:
        from scipy.sparse import csr_array  # here, because only tournaments of this kind need it
        from scipy.sparse.csgraph import shortest_path

        i, j = np.transpose(edges)
        graph = csr_array((np.ones(len(edges)), (i, j)), shape=(count, count))
        distance = shortest_path(graph, directed=False, unweighted=True)
        distance[np.isinf(distance)] = count
    else:
        distance = np.full((count, count), float(count))
    left, right = np.triu_indices(count, k=1)  # in ascending order, which a stable sort keeps
    free, pairs = set(range(count)), []
    for index in np.argsort(-distance[left, right], kind="stable"):
        if len(free) < 2:
            break
        pair = int(left[index]), int(right[index])
        if free.issuperset(pair):
            free.difference_update(pair)
            pairs.append(pair)
    return pairs


def even_group(group_size: Any) -> int:
    size = whole_number("group_size", group_size, least=2)
    if size % 2:
        raise InvalidInput(f"group_size is {size}, not even")
    return size


def two_players(pair: Sequence[Any], n: int) -> Pair:
    """Return two different players out of n, or raise."""
    i, j = (whole_number("a player", player) for player in pair)
    if max(i, j) >= n:
        raise InvalidInput(f"player {max(i, j)} is not one of {n}")
    if i == j:
        raise InvalidInput(f"player {i} is matched with itself")
    return i, j


def _edges(played: Any, n: int) -> list[Pair]:
    if not isinstance(played, Sequence | np.ndarray):
        raise InvalidInput("played is no list of pairs")
    for pair in played:
        if not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise InvalidInput(f"played holds {pair!r}, which is no pair")
    return [two_players(pair, n) for pair in played]
