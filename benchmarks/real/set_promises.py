"""Whether prediction sets hold the right label as often as they promise, over random halves of real data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom

from benchmarks.real.predictions import Index
from benchmarks.real.set_kinds import ALPHAS, KINDS, SetCase
from benchmarks.real.splits import Split
from demur.uncertainty.checks import Array, Mask, snapped_ceil

CHANCE = 0.05
"""A split is called low if one as low happens so often by chance alone."""

OURS = "demur"

Marks = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class SetOutcome:
    """What one kind of sets did at one error rate, over S splits."""

    data: str
    kind: str
    who: str
    """OURS or the name of another library."""

    alpha: float
    coverage: Array
    """[S], share of the test rows whose set has the right label."""

    size: Array
    """[S], mean number of labels in a set."""

    low: Marks
    """[S], coverage below what only CHANCE of all splits fall below, of sets with one quantile for all rows."""

    by_label: Array
    """[S, C], coverage of the test rows of each label; NaN where there are none."""

    by_group: Array | None
    """[S, G]"""

    only_ours: int
    """Of so many `memberships`, pairs of a test row and a label, how many are in our sets and not in these."""

    only_here: int
    """And the other way round."""

    memberships: int

    @cached_property
    def kept(self) -> bool:
        """Whether the mean over splits is at least 1 - alpha, but for three standard errors of chance."""
        return bool(self.coverage.mean() + 3 * standard_error(self.coverage) >= 1 - self.alpha)


def standard_error(values: Array) -> float:
    """Of the mean over all splits of these rows. Given the rows, splits are drawn independently."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def below(strata: Array, alpha: float) -> tuple[int, int, float]:
    """How many columns of [S, G] are covered less than 1 - alpha by more than three standard errors, of how many, and
    the smallest mean."""
    seen = strata[:, np.isfinite(strata).sum(axis=0) > 1]
    counts = np.isfinite(seen).sum(axis=0)
    means = np.nanmean(seen, axis=0)
    errors = np.nanstd(seen, axis=0, ddof=1) / np.sqrt(counts)
    return int((means + 3 * errors < 1 - alpha).sum()), seen.shape[1], float(means.min())


def least_by_chance(n: int, m: int, alpha: float) -> float:
    """The share of `m` test rows that at least 1 - CHANCE of all splits cover, with `n` fitted rows.

    Coverage of exchangeable rows without ties is beta-binomial: its spread is of the fit and of the test rows.
    """
    rank = snapped_ceil((n + 1) * (1 - alpha))
    return 0.0 if rank > n else float(betabinom.ppf(CHANCE, m, rank, n + 1 - rank) / m)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Sets of another library."""

    sets: Callable[[SetCase, Split], Array]
    """[m, C, A], one for each of ALPHAS."""

    splits: int | None = None
    """On so many of the first splits, if it is too slow for all."""


def measure(case: SetCase, parts: Sequence[Split], peers: Mapping[str, Mapping[str, Peer]]) -> list[SetOutcome]:
    """Our sets on every split, and those of `peers` by kind and name."""
    tallies: dict[tuple[str, str, float], list[_Counted]] = {}
    for at, part in enumerate(parts):
        for kind in case.kinds:
            asked = {
                name: peer for name, peer in peers.get(kind, {}).items() if peer.splits is None or at < peer.splits
            }
            theirs = {name: peer.sets(case, part) for name, peer in asked.items()}
            for column, alpha in enumerate(ALPHAS):
                ours = KINDS[kind](case, part, alpha)
                tallies.setdefault((kind, OURS, alpha), []).append(_counted(case, part, alpha, ours, ours))
                for name, sets in theirs.items():
                    counted = _counted(case, part, alpha, np.asarray(sets[..., column], dtype=bool), ours)
                    tallies.setdefault((kind, name, alpha), []).append(counted)
    return [_outcome(case, *names, tally) for names, tally in tallies.items()]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Counted:
    """One kind of sets on one split."""

    coverage: float
    size: float
    low: bool
    by_label: Array
    by_group: Array | None
    only_ours: int
    only_here: int
    memberships: int


def _counted(case: SetCase, part: Split, alpha: float, members: Mask, ours: Mask) -> _Counted:
    truth = case.classes[part.test]
    caught = members[np.arange(len(truth)), truth]
    groups = None if case.groups is None else (case.groups[part.test], int(case.groups.max()) + 1)
    return _Counted(
        coverage=float(caught.mean()),
        size=float(members.sum(axis=1).mean()),
        low=bool(caught.mean() < least_by_chance(len(part.fit), len(truth), alpha)),
        by_label=_means(caught, truth, case.probabilities.shape[1]),
        by_group=None if groups is None else _means(caught, *groups),
        only_ours=int((ours & ~members).sum()),
        only_here=int((members & ~ours).sum()),
        memberships=members.size,
    )


def _outcome(case: SetCase, kind: str, who: str, alpha: float, tally: Sequence[_Counted]) -> SetOutcome:
    by_group = [one.by_group for one in tally if one.by_group is not None]
    return SetOutcome(
        data=case.data,
        kind=kind,
        who=who,
        alpha=alpha,
        coverage=np.array([one.coverage for one in tally]),
        size=np.array([one.size for one in tally]),
        low=np.array([one.low for one in tally]),
        by_label=np.array([one.by_label for one in tally]),
        by_group=np.array(by_group) if by_group else None,
        only_ours=sum(one.only_ours for one in tally),
        only_here=sum(one.only_here for one in tally),
        memberships=sum(one.memberships for one in tally),
    )


def _means(values: Mask, strata: Index, count: int) -> Array:
    rows = np.bincount(strata, minlength=count)
    caught = np.bincount(strata, weights=values, minlength=count)
    return np.asarray(np.divide(caught, rows, out=np.full(count, np.nan), where=rows > 0))
