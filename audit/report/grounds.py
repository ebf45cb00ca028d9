"""What a number rests on, and the number itself: none where the labels cannot carry one."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.evidence import Status
from audit.report.cells import COUNTS
from audit.report.plan import Plan
from audit.report.survey import CHECKED
from audit.resampling import Interval
from uncertainty.checks import Array

NO_INTERVAL = Interval(lower=np.nan, upper=np.nan)

MIN_LABELLED, MIN_EFFECTIVE, MIN_EVENTS = 30, 20, 5
"""Those of `audit.evidence`."""

REFUSED = "refused"
"""Of a kind of records people were asked about, none was reviewed: nothing stands for them."""

COUNTED = "counted"
"""No label is needed: every record is known."""

BOOTSTRAP, EXACT, SEQUENCE, NORMAL = "bootstrap", "exact", "sequence", "normal"


@dataclass(frozen=True, kw_only=True)
class Grounds:
    """What a number about some records rests on."""

    n: int
    labelled: int
    effective: float
    """How many labels of equal weight would tell as much; NaN without any."""

    events: int
    """Labelled rows that are not wholly right."""

    status: str
    """A `Status`, `REFUSED` or `COUNTED`."""

    @property
    def enough(self) -> bool:
        return self.status in (Status.SUFFICIENT, Status.EXACT_ONLY)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number of a report; None where it is undefined, or where the evidence is insufficient."""

    name: str
    of: str
    """The score, the part or the k that it is about; empty for the whole."""

    value: float | None
    lower: float | None
    upper: float | None
    method: str | None
    """How the interval was made; None where there is none."""

    naive: float | None
    """The same of all rows with an outcome, each counted once: what one would have said without weights."""

    grounds: Grounds
    meaning: str


class Counts:
    """Columns of `COUNTS` of one tally, by name: [cells] each."""

    def __init__(self, table: Array) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._table[:, COUNTS.index(name)])


def grounds_of(counts: Counts, by: Plan, cell: int, *, answered: bool = False) -> Grounds:
    """What is known of a cell, or of its answered rows."""
    a = "a_" if answered else ""
    labelled, w, w_w = (float(counts[a + name][cell]) for name in ("labelled", "w", "w_w"))
    events = int(counts[a + "wrong"][cell])
    effective = w * w / w_w if w_w > 0 else np.nan
    refused = (CHECKED in by.refused) if answered else bool(by.refused)
    if not by.labels_meant or (refused and counts["drawn"][cell] > counts["reviewed"][cell]):
        status = REFUSED
    elif labelled == 0:
        status = Status.NONE.value
    elif labelled < MIN_LABELLED or effective < MIN_EFFECTIVE:
        status = Status.INSUFFICIENT.value
    elif min(events, labelled - events) < MIN_EVENTS:
        status = Status.EXACT_ONLY.value
    else:
        status = Status.SUFFICIENT.value
    return Grounds(
        n=int(counts["answered" if answered else "n"][cell]),
        labelled=int(labelled),
        effective=effective,
        events=events,
        status=status,
    )


def estimate(
    name: str,
    value: Any,
    interval: Interval,
    naive: Any,
    grounds: Grounds,
    meaning: str,
    *,
    of: str = "",
    method: str = BOOTSTRAP,
) -> Estimate:
    """Nothing is said that the labels cannot carry: then there is no number, whatever came out."""
    known = grounds.enough
    bounded = known and (grounds.status == Status.SUFFICIENT or method in (EXACT, SEQUENCE))
    lower, upper = (number(end) if bounded else None for end in (interval.lower, interval.upper))
    return Estimate(
        name=name,
        of=of,
        value=number(value) if known else None,
        lower=lower,
        upper=upper,
        method=None if lower is None or upper is None else method,
        naive=None if naive is None else number(naive),
        grounds=grounds,
        meaning=meaning,
    )


def counted(name: str, value: Any, n: int, meaning: str) -> Estimate:
    """Of every record, with no label needed."""
    grounds = Grounds(n=n, labelled=0, effective=np.nan, events=0, status=COUNTED)
    return Estimate(
        name=name, of="", value=number(value), lower=None, upper=None, method=None, naive=None, grounds=grounds,
        meaning=meaning,
    )  # fmt: skip


def number(value: Any) -> float | None:
    plain = float(value)
    return None if np.isnan(plain) else plain


def over(a: Any, b: Any) -> Array:
    """a / b, NaN where b is 0."""
    b = np.asarray(b, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(b > 0, np.asarray(a) / np.where(b > 0, b, 1.0), np.nan)
