"""An audit of traffic that is read part by part, on one machine or on many. It gives what an audit of the whole
gives."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from demur.audit.ledger.ledger import NONE, Extent, Ledger
from demur.audit.report import survey as surveys
from demur.audit.report import tally as tallies
from demur.audit.report.audit import (
    Audit,
    AuditSettings,
    NothingToAudit,
    concluded,
    frame_after,
    least_probability,
    plan_of,
)
from demur.audit.report.plan import AuditPlan
from demur.audit.report.resamples import Progress, unheard
from demur.audit.report.survey import Survey
from demur.audit.report.tally import Tally

T = TypeVar("T")


class Everywhere(Protocol):
    """Measures each part, wherever that is done, and returns what all of them come to; None where there is no record.

    What is given to it can be sent to other machines.
    """

    def __call__(self, measure: Callable[[Ledger], T], together: Callable[[Sequence[T]], T]) -> T | None: ...


@dataclass(frozen=True, kw_only=True)
class TrafficSummary:
    """What must be known of all records before any is weighed."""

    survey: Survey
    least_probability: float
    """The lowest chance of a label among them."""

    last_artifact: tuple[datetime, str] | None
    """The last of them that an artifact decided: when, and which one."""


def audit_in_parts(
    extent: Extent,
    everywhere: Everywhere,
    ask: Callable[[TrafficSummary], AuditSettings],
    *,
    progress: Progress = unheard,
) -> Audit:
    """Measure traffic that no machine need hold as a whole: `ask` says what is asked of it. Raises `NothingToAudit`.

    Every number but those below is that of `demur.audit.report.audit.audit`, except for the order in which floats are
    added.
    Intervals are resampled over rows thrown together into `plan.UNITS` units, which for fewer rows than that is
    coarser. Where a score has more than `survey.FINEST` different values, its ranks are of values thinned in another
    order; `ranked_exactly` in the document says where none was thinned.
    """
    seen = everywhere(partial(see, after=None), seen_together)
    if seen is None:
        raise NothingToAudit(f"there are no records of {extent.model!r} in this range; widen it, or send traffic first")
    asked = ask(seen)
    after = frame_after(seen.survey, asked.settings)
    if after is not None:
        seen = everywhere(partial(see, after=after), seen_together)
        assert seen is not None
    by = plan_of(seen.survey, asked, after, seen.least_probability, together=False)
    sums = everywhere(partial(tallied, by=by), tallies.together)
    assert sums is not None
    return concluded(extent, seen.survey, by, sums, asked, progress=progress)


def see(ledger: Ledger, *, after: datetime | None) -> TrafficSummary:
    decided = np.flatnonzero(ledger.artifacts.codes != NONE)
    return TrafficSummary(
        survey=surveys.survey(ledger, frame_after=after),
        least_probability=least_probability(ledger, after),
        last_artifact=(
            surveys.moment(ledger.times[decided[-1]]),
            ledger.artifacts.names[ledger.artifacts.codes[decided[-1]]],
        )
        if len(decided)
        else None,
    )


def seen_together(parts: Sequence[TrafficSummary]) -> TrafficSummary:
    return TrafficSummary(
        survey=surveys.together([part.survey for part in parts]),
        least_probability=min(part.least_probability for part in parts),
        last_artifact=max((part.last_artifact for part in parts if part.last_artifact), default=None),
    )


def tallied(ledger: Ledger, *, by: AuditPlan) -> Tally:
    return tallies.tally(ledger, by)


def one_by_one(n: int, read: Callable[[int], Ledger], *, progress: Progress = unheard) -> Everywhere:
    """On this machine, with one part in memory at a time: read anew each time, unless it is the only one."""
    only: list[Ledger] = []

    def everywhere(measure: Callable[[Ledger], T], together: Callable[[Sequence[T]], T]) -> T | None:
        def each() -> Iterator[T]:
            for at in range(n):
                ledger = only[0] if only else read(at)
                only.extend([ledger] if n == 1 and not only else [])
                yield from measured(ledger, measure)
                progress(at + 1, n)

        return folded(each(), together)

    return everywhere


def measured(ledger: Ledger, measure: Callable[[Ledger], T]) -> Iterator[T]:
    """What is measured of a part; nothing of one without a record."""
    if len(ledger):
        yield measure(ledger)


def folded(found: Iterator[T], together: Callable[[Sequence[T]], T]) -> T | None:
    """All of them together, two at a time, so that no more than two are in memory; None where there is none."""
    total = next(found, None)
    for one in found:
        assert total is not None
        total = together([total, one])
    return total
