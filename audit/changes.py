"""What has changed from one report to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from math import isnan, nan

from demur.audit.state.reports import Figure, LabelCount, Report, ReportExtent


class Apart(StrEnum):
    """How the intervals of a number lie to each other."""

    APART = "apart"  # no value is in both: it has changed, beyond chance
    OVERLAP = "overlap"  # some value is in both: it may be the same, and may have changed as well
    UNKNOWN = "unknown"  # one of them has none


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedFigure:
    """One number, now and then. NaN where it is not known, or was not measured."""

    name: str
    words: str
    now: Figure
    then: Figure
    difference: float
    intervals: Apart


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelChange:
    """The share of a part of the records of which the truth was known."""

    name: str
    now: LabelCount | None
    then: LabelCount | None
    difference: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtifactChange:
    """How many records an artifact decided; 0 where it decided none."""

    name: str
    now: int
    then: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportComparison:
    """Two reports of one model."""

    now: Report
    then: Report
    figures: Sequence[ChangedFigure]
    labels: Sequence[LabelChange]
    artifacts: Sequence[ArtifactChange]
    common: timedelta
    """How much of their ranges both are about: so far they are no two observations."""

    @property
    def verdict_changed(self) -> bool:
        return self.now.summary.verdict != self.then.summary.verdict

    @property
    def promise_changed(self) -> bool:
        now, then = self.now.summary.max_risk, self.then.summary.max_risk
        return now != then and not (isnan(now) and isnan(then))

    @property
    def lengths_differ(self) -> bool:
        return _length(self.now.extent) != _length(self.then.extent)


def compared(now: Report, then: Report) -> ReportComparison:
    """Hold one report against an earlier one. Figures come in the order of the later one."""
    old = {figure.name: figure for figure in then.summary.figures}
    new = {figure.name: figure for figure in now.summary.figures}
    common = min(now.extent.until, then.extent.until) - max(now.extent.since, then.extent.since)
    names = sorted({*now.summary.artifacts, *then.summary.artifacts})
    return ReportComparison(
        now=now,
        then=then,
        figures=[_change(new.get(name), old.get(name)) for name in dict.fromkeys([*new, *old])],
        labels=_label_changes(now.summary.labels, then.summary.labels),
        artifacts=[
            ArtifactChange(name=name, now=now.summary.artifacts.get(name, 0), then=then.summary.artifacts.get(name, 0))
            for name in names
        ],
        common=max(common, timedelta(0)),
    )


def _change(now: Figure | None, then: Figure | None) -> ChangedFigure:
    known = now or then
    assert known is not None
    missing = Figure(name=known.name, words=known.words, value=nan, low=nan, high=nan, share=known.share)
    now, then = now or missing, then or missing
    intervals = Apart.UNKNOWN
    if now.bounded and then.bounded:
        intervals = Apart.APART if now.low > then.high or now.high < then.low else Apart.OVERLAP
    return ChangedFigure(
        name=known.name,
        words=known.words,
        now=now,
        then=then,
        difference=now.value - then.value,
        intervals=intervals,
    )


def _label_changes(now: Sequence[LabelCount], then: Sequence[LabelCount]) -> list[LabelChange]:
    new, old = {part.name: part for part in now}, {part.name: part for part in then}
    return [
        LabelChange(
            name=name,
            now=new.get(name),
            then=old.get(name),
            difference=new[name].share - old[name].share if name in new and name in old else nan,
        )
        for name in dict.fromkeys([*new, *old])
    ]


def _length(extent: ReportExtent) -> timedelta:
    return extent.until - extent.since
