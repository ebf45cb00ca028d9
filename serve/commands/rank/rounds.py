"""The rounds of a tournament: who meets whom, what the verdicts do to the ratings, and when it is enough."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from demur.audit.metrics.correlation import spearman
from demur.serve.commands.rank.journal import Journal, Match, Round
from demur.serve.config.file import BadConfig
from demur.serve.hosts.language.pair import PairResult
from demur.uncertainty.checks import Array
from demur.uncertainty.pairing import GROUP_SIZE, Pair, graph_pairs, random_pairs, swiss_pairs
from demur.uncertainty.tournament import START, K, update_ratings

Schedule = Literal["random", "graph", "swiss"]
Ended = Literal["settled", "rounds", "comparisons"]

WINDOW = 5
"""Rounds over which ratings are averaged before it is asked whether they still move."""

MOST_IN_A_GRAPH = 2_000
"""Players; the graph schedule looks at every two of them before each round."""


Told = Callable[[int, int], None]
"""Told the round that is being played, and how many comparisons are done, those of earlier sittings included."""


@dataclass(frozen=True, kw_only=True)
class TournamentPlan:
    """What settles who meets whom. With the same verdicts, the same plan gives the same ratings."""

    schedule: Schedule = "random"
    seed: int = 0

    def as_facts(self) -> dict[str, Any]:
        return {"schedule": self.schedule, "seed": self.seed, "k": K, "start": START, "group_size": GROUP_SIZE}


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When to stop."""

    rounds: int = 30
    """In all, those of earlier sittings included."""

    comparisons: int | None = None
    """In all, likewise; a round that would go beyond it is not begun."""

    settled: float = 0.97
    """The agreement of two windows (`agreement`) from which on ratings have settled; 1: never."""


class Judge(Protocol):
    """Whoever compares."""

    def __call__(self, pairs: Sequence[tuple[str, str]], advance: Callable[[], None]) -> "list[PairResult | None]":
        """Return what came of each pair, None where there was no reply; `advance` is called after each of them."""
        ...


@dataclass(frozen=True, kw_only=True)
class TournamentState:
    """How a tournament stands."""

    ratings: Array
    """[players]"""

    rounds: tuple[Round, ...]
    agreement: float | None
    ended: Ended

    @property
    def matches(self) -> list[Match]:
        return [match for played in self.rounds for match in played.matches]


def play(
    inputs: Sequence[str], judge: Judge, journal: Journal, *, plan: TournamentPlan, budget: Budget, told: Told
) -> TournamentState:
    """Play rounds until ratings settle or the budget ends, after those that are in the journal.

    A round and its sides are drawn from the seed and the number of the round alone, so that a tournament that was
    broken off goes on as if it had not been. Sides are drawn by a fair coin for each pair, so that a model that likes
    what it reads first favours nobody.
    """
    seats = np.random.default_rng(plan.seed).permutation(len(inputs)).tolist()  # a file may be sorted by its labels
    ratings, history = np.full(len(inputs), START), list[Array]()
    for played in journal.rounds:
        ratings = _after(ratings, played)
        history.append(ratings)
    while (ended := _ended(journal.rounds, history, len(inputs), budget)) is None:
        number = len(journal.rounds) + 1
        before = sum(len(played.matches) for played in journal.rounds)
        rng = np.random.default_rng([plan.seed, number])
        pairs = _pairs(plan.schedule, seats, ratings, journal.rounds, rng)
        swapped = rng.random(len(pairs)) < 0.5
        shown = [(j, i) if swap else (i, j) for (i, j), swap in zip(pairs, swapped.tolist(), strict=True)]
        compared = judge([(inputs[a], inputs[b]) for a, b in shown], _counting(told, number, before))
        played = Round(
            round=number,
            matches=tuple((a, b, one.side if one else None) for (a, b), one in zip(shown, compared, strict=True)),
            failed=sum(one is None for one in compared),
            prompt_tokens=sum(one.usage.prompt_tokens for one in compared if one),
            completion_tokens=sum(one.usage.completion_tokens for one in compared if one),
        )
        journal.append(played)
        ratings = _after(ratings, played)
        history.append(ratings)
    return TournamentState(ratings=ratings, rounds=tuple(journal.rounds), agreement=agreement(history), ended=ended)


def _counting(told: Told, number: int, before: int) -> Callable[[], None]:
    counts = itertools.count(before + 1)
    return lambda: told(number, next(counts))


def agreement(history: Sequence[Array]) -> float | None:
    """Spearman's correlation between the ratings of the last `WINDOW` rounds and those of the `WINDOW` before, each
    averaged over its rounds, since with a constant K single ratings never come to rest. None where there are too few
    rounds, or where all ratings are the same. Ratings have settled once it reaches a level such as 0.97."""
    if len(history) < 2 * WINDOW:
        return None
    before = np.mean(history[-2 * WINDOW : -WINDOW], axis=0)
    found = spearman(before, np.mean(history[-WINDOW:], axis=0))
    return None if np.isnan(found) else found


def _ended(rounds: Sequence[Round], history: Sequence[Array], players: int, budget: Budget) -> Ended | None:
    agreed = agreement(history)
    if agreed is not None and budget.settled < 1 and agreed >= budget.settled:
        return "settled"
    if len(rounds) >= budget.rounds:
        return "rounds"
    played = sum(len(one.matches) for one in rounds)
    if budget.comparisons is not None and played + players // 2 > budget.comparisons:
        return "comparisons"
    return None


def _after(ratings: Array, played: Round) -> Array:
    scores = {"A": 1.0, "B": 0.0, None: None}
    return update_ratings(ratings, [(a, b, scores[side]) for a, b, side in played.matches], k=K)


def _pairs(
    schedule: Schedule, seats: list[int], ratings: Array, rounds: Sequence[Round], rng: np.random.Generator
) -> list[Pair]:
    """Who meets whom. The schedules break ties by seat, and seats were drawn."""
    n = len(seats)
    if schedule == "random":
        return random_pairs(rng.permutation(n).tolist())
    if schedule == "graph":
        seat = {player: at for at, player in enumerate(seats)}
        played = [(seat[a], seat[b]) for one in rounds for a, b, _ in one.matches]
        found, playing = graph_pairs(n, played), seats
    else:
        playing = _even(seats, rounds, rng)
        found = swiss_pairs(ratings[playing])
    return [(playing[i], playing[j]) for i, j in found]


def _even(seats: list[int], rounds: Sequence[Round], rng: np.random.Generator) -> list[int]:
    """All but one of those that played most, where their number is odd: else the lowest would sit out for ever."""
    if len(seats) % 2 == 0:
        return seats
    times = np.zeros(len(seats), dtype=np.intp)
    for one in rounds:
        for a, b, _ in one.matches:
            times[[a, b]] += 1
    resting = int(rng.choice(np.flatnonzero(times == times.max())))
    return [player for player in seats if player != resting]


def check_feasible(players: int, plan: TournamentPlan, budget: Budget) -> None:
    """Raise `BadConfig` where no round can be played, or not in any time that somebody would wait."""
    if plan.schedule == "graph" and players > MOST_IN_A_GRAPH:
        raise BadConfig(
            f"the graph schedule looks at every two of {players:,} inputs before each round; above {MOST_IN_A_GRAPH:,}"
            " use --schedule random or swiss"
        )
    if budget.comparisons is not None and budget.comparisons < players // 2:
        raise BadConfig(f"--comparisons {budget.comparisons} is not enough for one round, which takes {players // 2}")
