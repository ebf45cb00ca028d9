"""Prediction sets and label sets on draws from real rows, of which everything is known: how many fits cover too few."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.real.predictions import Index
from benchmarks.real.set_kinds import SetCase
from benchmarks.real.tables import table
from demur.policies.conformal_sets import (
    AdaptiveSets,
    ClassConditionalSets,
    GroupConditionalSets,
    RegularisedSets,
    SplitSets,
)
from demur.policies.missed_label_sets import MissedLabelSets
from demur.uncertainty.checks import Array, Mask

N_FITTED = 1_000
ALPHA = 0.1
DELTA = 0.1
LABEL_ALPHAS = (0.05, 0.1, 0.2)

KINDS: Mapping[str, Any] = {
    "split": SplitSets,
    "adaptive": AdaptiveSets,
    "regularised": RegularisedSets,
    "class-conditional": ClassConditionalSets,
    "group-conditional": GroupConditionalSets,
}
IN_PARTS = {"class-conditional", "group-conditional"}


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedSets:
    """What D fits of one kind of sets do to all rows of the data."""

    data: str
    kind: str
    delta: float | None
    coverage: Array
    """[D]; of the class or the group that is covered least, where the promise is about each."""

    mean_coverage: Array
    """[D], of all rows."""

    size: Array
    """[D], mean number of labels in a set."""


def measure_sets(case: SetCase, draws: int, seed: int) -> list[FittedSets]:
    """Rows are drawn with replacement, so that the promise is about just these."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(len(case.classes), size=N_FITTED) for _ in range(draws)]
    found = []
    for kind in case.kinds:
        for delta in (None, DELTA):
            counted = np.array([_counted(case, KINDS[kind](alpha=ALPHA, delta=delta), kind, some) for some in drawn])
            worst, mean, size = counted.T
            found.append(
                FittedSets(data=case.data, kind=kind, delta=delta, coverage=worst, mean_coverage=mean, size=size)
            )
    return found


def _counted(case: SetCase, recipe: Any, kind: str, drawn: Index) -> tuple[float, float, float]:
    """The least coverage of what is promised, the mean one, and the mean size."""
    p, truth = case.probabilities, case.classes
    names = None if case.groups is None else [f"group {number}" for number in case.groups.tolist()]
    groups = names if kind == "group-conditional" else None
    members = recipe.fit(p[drawn], truth[drawn], None if groups is None else [groups[row] for row in drawn.tolist()])
    inside = members.of(p, groups)
    caught = inside[np.arange(len(truth)), truth]
    parts = {"class-conditional": truth, "group-conditional": case.groups}.get(kind)
    worst = caught.mean() if parts is None else min(caught[parts == part].mean() for part in np.unique(parts))
    return float(worst), float(caught.mean()), float(inside.sum(axis=1).mean())


def sets_table(found: Sequence[FittedSets]) -> str:
    rows = []
    for one in found:
        below = int((one.coverage < 1 - ALPHA).sum())
        low, high = np.quantile(one.mean_coverage, [0.05, 0.95])
        rows.append(
            (
                one.data,
                one.kind,
                "on average" if one.delta is None else f"but for {one.delta:.0%} of the fits",
                f"{below} of {len(one.coverage)}",
                f"{one.mean_coverage.mean():.3f} ({low:.3f} to {high:.3f})",
                f"{one.size.mean():.2f}",
            )
        )
    header = ("data", "sets", "promised", f"fits that cover less than {1 - ALPHA:.0%}", "coverage", "labels in a set")
    return table(header, rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class MultilabelRows:
    data: str
    probabilities: Array
    """[n, L]"""

    truth: Mask
    """[n, L]"""


def label_share_table(cases: Sequence[MultilabelRows], draws: int, seed: int) -> str:
    """What sets by either promise miss in all rows: a share of the labels that hold, and a mean over rows."""
    made = []
    for case in cases:
        rng = np.random.default_rng(seed)
        drawn = [rng.integers(len(case.truth), size=N_FITTED) for _ in range(draws)]
        held = case.truth.sum(axis=1)
        for alpha in LABEL_ALPHAS:
            for share in ("rows", "labels"):
                missed, by_row, size = [], [], []
                for some in drawn:
                    recipe = MissedLabelSets(alpha=alpha, share_of=share)
                    inside = recipe.fit(case.probabilities[some], case.truth[some]).of(case.probabilities)
                    lost = (case.truth & ~inside).sum(axis=1)
                    missed.append(lost.sum() / held.sum())
                    by_row.append(float(np.mean(lost / np.maximum(held, 1))))
                    size.append(float(inside.sum(axis=1).mean()))
                made.append(
                    (
                        case.data,
                        f"{alpha:.0%}",
                        "a row's labels, mean over rows" if share == "rows" else "the labels that hold",
                        *(f"{np.mean(one):.3f} ± {np.std(one, ddof=1):.3f}" for one in (missed, by_row)),
                        f"{np.mean(size):.2f}",
                    )
                )
    header = ("data", "missed at most", "of", "of the labels that hold, missed", "mean over rows", "labels in a set")
    return table(header, made)
