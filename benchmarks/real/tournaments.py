"""How soon Elo ratings agree with a ranking that is known, by who meets whom (TOUR 2, 3.2)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real.archives import csv_rows, json_rows
from benchmarks.real.splits import SEED
from demur.audit.metrics.correlation import kendall_tau_b, spearman
from demur.audit.metrics.discrimination import roc_auc
from demur.uncertainty.checks import Array
from demur.uncertainty.pairing import Pair, graph_pairs, random_pairs, swiss_pairs
from demur.uncertainty.tournament import START, update_ratings

ARGUMENTS = ("convarg_pairs", "arguments.jsonl.gz")
PAIRS = ("convarg_pairs", "pairs.csv.gz")
PREFERENCES = ("alpacaeval_prefs", "preferences.csv.gz")

SCHEDULES = ("random", "graph", "swiss")
ROUNDS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40)
"""After which the ratings are looked at."""

LONGER = (*ROUNDS, 60, 100, 150, 200)
TIMES = 20
SPREAD = 50.0
"""Ratings start so far around START, at random, as in the released code: ties would be broken by the order of rows."""

Judge = Callable[[int, int, np.random.Generator], float | None]
"""The score of the first of two players, 1, 0.5 or 0, or None for no verdict."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """`n` players, a judge, and how they are ranked elsewhere."""

    name: str
    judge: Judge
    published: Array
    """[n], higher is better."""

    all_pairs: Array
    """[n], the share of all pairs that each wins: what all verdicts together say. A tie is half of a win."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Played:
    """One kind of contests under one schedule; mean over contests, one row for each repetition."""

    contests: str
    judge: str
    schedule: str
    players: float
    rounds: tuple[int, ...]
    """R of them."""

    spearman: Array
    """[TIMES, R], of the ratings with the published ranking."""

    kendall: Array
    auroc: Array
    """Of the ratings for the upper half of the published ranking."""

    settled: Array
    """Spearman of the ratings with those of the round before."""

    best: float
    """Spearman of all pairs together with the published ranking."""

    best_kendall: float

    def comparisons(self, rounds: int) -> float:
        """That each player has been in."""
        return rounds * 2 * (self.players // 2) / self.players


def measure(
    contests: Sequence[Contest],
    *,
    name: str,
    judge: str,
    schedules: Sequence[str] = SCHEDULES,
    times: int = TIMES,
    rounds: Sequence[int] = ROUNDS,
    seed: int = SEED,
) -> list[Played]:
    both = [(each.all_pairs, each.published) for each in contests]
    found = []
    for schedule in schedules:
        runs = [
            [_run(each, schedule, rounds, np.random.default_rng((seed, at))) for each in contests]
            for at in range(times)
        ]
        curves = np.array(runs).mean(axis=1)
        found.append(
            Played(
                contests=name,
                judge=judge,
                schedule=schedule,
                players=float(np.mean([len(each.published) for each in contests])),
                rounds=tuple(rounds),
                spearman=curves[:, 0],
                kendall=curves[:, 1],
                auroc=curves[:, 2],
                settled=curves[:, 3],
                best=float(np.mean([spearman(*each) for each in both])),
                best_kendall=float(np.mean([kendall_tau_b(*each).tau for each in both])),
            )
        )
    return found


def _run(contest: Contest, schedule: str, rounds: Sequence[int], rng: np.random.Generator) -> list[list[float]]:
    """Spearman, Kendall, AUROC and agreement with the round before, after each of `rounds`."""
    shuffled = rng.permutation(len(contest.published))  # the graph breaks ties by the order of players
    published = contest.published[shuffled]
    upper = published > np.median(published)
    curves: list[list[float]] = [[], [], [], []]
    last = np.zeros(len(published))
    for number, ratings in enumerate(play(contest.judge, shuffled.tolist(), schedule, max(rounds), rng), start=1):
        if number in rounds:
            curves[0].append(spearman(ratings, published))
            curves[1].append(kendall_tau_b(ratings, published).tau)
            curves[2].append(roc_auc(upper, ratings))
            curves[3].append(spearman(ratings, last))
        last = ratings
    return curves


def play(judge: Judge, players: Sequence[int], schedule: str, rounds: int, rng: np.random.Generator) -> Iterator[Array]:
    """The ratings [n] of `players`, in their order, after each round."""
    ratings = START + rng.uniform(-SPREAD, SPREAD, len(players))
    played: list[Pair] = []
    for _ in range(rounds):
        pairs = pairs_of(schedule, ratings, played, rng)
        matches = [(i, j, judge(players[i], players[j], rng)) for i, j in pairs]
        ratings = update_ratings(ratings, matches)
        played += pairs
        yield ratings


def pairs_of(schedule: str, ratings: Array, played: Sequence[Pair], rng: np.random.Generator) -> list[Pair]:
    if schedule == "random":
        return random_pairs(rng.permutation(len(ratings)))
    return graph_pairs(len(ratings), played) if schedule == "graph" else swiss_pairs(ratings)


def arguments(data: Path) -> dict[str, list[Contest]]:
    """Each side of a debate is a contest in which every pair was judged by five people. By judge."""
    sides: dict[str, dict[str, float]] = {}
    for row in json_rows(data.joinpath(*ARGUMENTS)):
        sides.setdefault(row["topic_side"], {})[row["arg_id"]] = -row["rank_score"]  # stored lower for better
    votes: dict[str, dict[tuple[str, str], list[float]]] = {}
    for line in csv_rows(data.joinpath(*PAIRS)):
        cast = [VOTES[vote.split(":")[1]] for vote in line["votes"].split(";")]
        votes.setdefault(line["topic_side"], {})[line["a1"], line["a2"]] = cast
    found: dict[str, list[Contest]] = {"never wrong": [], "most of five people": [], "one person": []}
    for side, ranks in sides.items():
        names = list(ranks)
        number = {name: at for at, name in enumerate(names)}
        both: dict[tuple[int, int], list[float]] = {}
        for (a, b), given in votes[side].items():
            both[number[a], number[b]] = given
            both[number[b], number[a]] = [1 - vote for vote in given]
        published = np.array([ranks[name] for name in names])
        share = np.zeros(len(names))
        for (i, _), given in both.items():
            share[i] += majority(given) / (len(names) - 1)
        found["never wrong"].append(
            Contest(name=side, judge=_of_ranking(published), published=published, all_pairs=published)
        )
        for judge_name, judge in (("most of five people", _of_most(both)), ("one person", _of_one(both))):
            found[judge_name].append(Contest(name=side, judge=judge, published=published, all_pairs=share))
    return found


VOTES = {"a1": 1.0, "a2": 0.0, "equal": 0.5}


def majority(votes: Sequence[float]) -> float:
    """1, 0 or 0.5: of votes for the first, for the second and for "equal" the most frequent; a draw is "equal"."""
    first, second, equal = (sum(vote == kind for vote in votes) for kind in (1.0, 0.0, 0.5))
    if first > max(second, equal):
        return 1.0
    return 0.0 if second > max(first, equal) else 0.5


def _of_ranking(published: Array) -> Judge:
    """The ranking itself, so that what is missing is missing by the schedule and by Elo."""
    return lambda i, j, rng: None if published[i] == published[j] else float(published[i] > published[j])  # noqa: ARG005


def _of_most(cast: Mapping[tuple[int, int], Sequence[float]]) -> Judge:
    verdicts = {pair: majority(votes) for pair, votes in cast.items()}
    return lambda i, j, rng: verdicts.get((i, j))  # noqa: ARG005 - nothing is drawn


def _of_one(cast: Mapping[tuple[int, int], Sequence[float]]) -> Judge:
    """One of the five, drawn anew each time that the two meet."""

    def judge(i: int, j: int, rng: np.random.Generator) -> float | None:
        votes = cast.get((i, j))
        return None if votes is None else votes[int(rng.integers(len(votes)))]

    return judge


@dataclass(frozen=True, kw_only=True, eq=False)
class Preferences:
    """A judge's probability that an answer beats the baseline's to the same instruction."""

    models: tuple[str, ...]
    values: Array
    """[instructions, models], 0 to 1"""


def preferences(data: Path) -> Preferences:
    lines = csv_rows(data.joinpath(*PREFERENCES))
    models = tuple(name for name in lines[0] if name != "id")
    return Preferences(models=models, values=np.array([[float(line[m]) for m in models] for line in lines]) - 1)


def models(data: Path) -> list[Contest]:
    """Two models meet on one instruction that is drawn: the better one is whose answer the judge prefers more surely to
    the baseline's. No answers of two models were ever compared directly."""
    given = preferences(data).values
    duels = [[_duel(a, b).mean() for b in given.T] for a in given.T]  # of a model with itself it is a half
    wins = (np.sum(duels, axis=1) - 0.5) / (given.shape[1] - 1)

    def judge(i: int, j: int, rng: np.random.Generator) -> float:
        row = int(rng.integers(len(given)))
        return float(_duel(given[row, i], given[row, j]))

    return [Contest(name="models", judge=judge, published=given.mean(axis=0), all_pairs=wins)]


def _duel(a: Array | float, b: Array | float) -> Array:
    return np.asarray((np.sign(np.asarray(a) - b) + 1) / 2)


def missing(data: Path) -> list[str]:
    return ["/".join(path) for path in (ARGUMENTS, PAIRS, PREFERENCES) if not data.joinpath(*path).is_file()]
