"""Elo ratings of inputs from pairwise verdicts "which of the two is more surely positive?" (TOUR 2, 3.2).

A higher rating means more positive, so nothing is reversed for ROC-AUC.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from demur.uncertainty.checks import Array, InvalidInput, finite, real_number, same_length, whole_number
from demur.uncertainty.pairing import GROUP_SIZE, Pair, even_group, graph_pairs, random_pairs, swiss_pairs, two_players

START = 1000.0
K = 32.0
SLOPE = np.log(10) / 400  # 400 points are odds of ten to one


def expected_score(rating_a: Any, rating_b: Any) -> float:
    """Probability that a beats b: 1 / (1 + 10^((b - a) / 400))."""
    a, b = real_number("rating_a", rating_a), real_number("rating_b", rating_b)
    return float(expit(SLOPE * (a - b)))


def update_ratings(ratings: Any, matches: Any, *, k: float = K) -> Array:
    """Return the ratings [n] after one round of `matches` (i, j, score of i).

    Each moves by k (score - expected), from the ratings before the round, so that their sum stays. The score is
    1, 0.5, 0, or `None` for no verdict, which moves nothing. Nobody plays twice in a round.
    """
    before, step = finite("ratings", ratings), real_number("k", k, least=0)
    after, seen = before.copy(), set[int]()
    for i, j, score in _round(matches, len(before)):
        if i in seen or j in seen:
            raise InvalidInput(f"a player of match ({i}, {j}) plays twice in the round")
        seen |= {i, j}
        if score is not None:
            gain = step * (score - expected_score(before[i], before[j]))
            after[i] += gain
            after[j] -= gain
    return after


def positive_probability(ratings: Any, *, reference: float = START) -> Array:
    """Probability [n] of beating an opponent of rating `reference`, in [0, 1]."""
    against = real_number("reference", reference)
    return np.asarray(expit(SLOPE * (finite("ratings", ratings) - against)))


def rating_uncertainty(ratings: Any, *, reference: float = START) -> Array:
    """1 - |2p - 1| for p = `positive_probability`: 1 at the reference, near 0 far from it on either side."""
    return 1 - np.abs(2 * positive_probability(ratings, reference=reference) - 1)


def run_tournament(
    strengths: Any,
    rounds: Any,
    *,
    scheduler: Literal["random", "swiss", "graph"],
    initial_ratings: Any = None,
    k: float = K,
    group_size: int = GROUP_SIZE,
    permutations: Any = None,
) -> Array:
    """Return the ratings [n] after `rounds` rounds in which the stronger always wins and equals get no verdict.

    For tests: with a real judge, call the scheduler and `update_ratings` in turn. "random" takes one permutation
    of the players for each round.
    """
    strength = finite("strengths", strengths)
    n, total = len(strength), whole_number("rounds", rounds)
    ratings = np.full(n, START) if initial_ratings is None else finite("initial_ratings", initial_ratings)
    same_length(strengths=strength, initial_ratings=ratings)
    real_number("k", k, least=0)
    even_group(group_size)
    if scheduler not in ("random", "swiss", "graph"):
        raise InvalidInput(f"scheduler is {scheduler!r}; it is 'random', 'swiss' or 'graph'")
    drawn = _drawn(permutations, n, total) if scheduler == "random" else []

    played: list[Pair] = []
    for number in range(total):
        if scheduler == "random":
            pairs = drawn[number]
        elif scheduler == "swiss":
            pairs = swiss_pairs(ratings, group_size=group_size)
        else:
            pairs = graph_pairs(n, played)
        ratings = update_ratings(ratings, [(i, j, _stronger(strength[i], strength[j])) for i, j in pairs], k=k)
        played += pairs
    return ratings


def _stronger(a: float, b: float) -> float | None:
    return None if a == b else float(a > b)


def _drawn(permutations: Any, n: int, rounds: int) -> list[list[Pair]]:
    if not isinstance(permutations, Sequence | np.ndarray) or len(permutations) != rounds:
        raise InvalidInput(f"the random scheduler needs a permutation for each of {rounds} rounds")
    drawn = [random_pairs(permutation) for permutation in permutations]
    if any(len(permutation) != n for permutation in permutations):
        raise InvalidInput(f"a permutation is not one of {n} players")
    return drawn


def _round(matches: Any, n: int) -> list[tuple[int, int, float | None]]:
    if not isinstance(matches, Sequence):
        raise InvalidInput("matches is no list")
    checked = []
    for match in matches:
        if not isinstance(match, Sequence) or isinstance(match, str) or len(match) != 3:
            raise InvalidInput(f"matches hold {match!r}; a match is (i, j, score)")
        score = match[2]
        if score is not None and score not in (0, 0.5, 1):
            raise InvalidInput(f"a match has score {score!r}; it is 1, 0.5, 0 or None")
        checked.append((*two_players(match[:2], n), None if score is None else float(score)))
    return checked
