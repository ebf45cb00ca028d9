"""What a fit is worth group by group: risk, ranking, calibration and prediction sets of each."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from demur.audit.findings import Finding, KnownDecisions, all_or_nothing, number_or_none
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.evidence import MIN_LABELLED
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.selective import prr

MOST_GROUPS = 30
"""Groups with lines of their own: those with the most rows."""

COUNTED = ("group_coverage", "group_risk", "group_set_coverage")
"""Shares of rows, whose intervals are exact."""


def group_lines(rows: KnownDecisions, groups: Sequence[str | None]) -> Iterator[Finding]:
    """Yield the lines of each of the `groups` [n]; rows of no group are in none.

    Groups of fewer than 30 rows have shares alone. Nothing is averaged over groups.
    """
    for name, own in _members(groups):
        part = rows.rows(own)
        n, answered, loss = len(part), part.answered, 1 - part.quality
        yield _line(f"group_coverage.{name}", answered.mean(), n, "share that was answered")
        risk = loss[answered].mean() if answered.any() else np.nan
        yield _line(f"group_risk.{name}", risk, int(answered.sum()), "share of wrong answers among the answered")
        enough = n >= MIN_LABELLED
        ranks = error_roc_auc(part.correct, -part.confidence) if enough else np.nan
        yield _line(f"group_auroc.{name}", ranks, n, "chance that an error ranks above a right answer, by confidence")
        yield _line(
            f"group_prr.{name}", prr(part.quality, -part.confidence) if enough else np.nan, n, "prr of the same"
        )
        if all_or_nothing(rows.quality):
            gap = ece(part.confidence, part.quality) if enough else np.nan
            yield _line(f"group_ece.{name}", gap, n, "ece of the calibrated confidence")
        if part.sets is not None:
            size, covered = part.sets.T
            yield _line(f"group_set_coverage.{name}", covered.mean(), n, "share of sets that hold the right label")
            yield _line(f"group_set_size.{name}", size.mean(), n, "mean number of labels in a set")


def group_intervals(lines: Sequence[Finding], rows: KnownDecisions) -> dict[str, Interval]:
    """Return exact intervals of the shares of rows, by the name of the line (Clopper & Pearson)."""
    found = {}
    for line in lines:
        kind = line.name.partition(".")[0]
        if kind not in COUNTED or line.value is None:
            continue
        if kind == "group_risk" and not all_or_nothing(rows.quality):
            continue
        if kind == "group_set_coverage" and (rows.sets is None or not all_or_nothing(rows.sets[:, 1])):
            continue
        found[line.name] = clopper_pearson(round(line.value * line.n), line.n)
    return found


def _members(groups: Sequence[str | None]) -> Iterator[tuple[str, NDArray[np.intp]]]:
    names = np.array(["" if one is None else one for one in groups], dtype=object)
    distinct, codes = np.unique(names.astype(str), return_inverse=True)
    named = [(str(name), np.flatnonzero(codes == at)) for at, name in enumerate(distinct) if name]
    yield from sorted(named, key=lambda one: (-len(one[1]), one[0]))[:MOST_GROUPS]


def _line(name: str, value: float, n: int, meaning: str) -> Finding:
    return Finding(name=name, value=number_or_none(float(value)), n=n, meaning=meaning)
