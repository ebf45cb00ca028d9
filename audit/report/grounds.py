"""What a number rests on, and the number itself: none where the labels cannot carry one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.resampling import Interval
from demur.audit.report.cells import COUNTS
from demur.audit.report.plan import AuditPlan
from demur.audit.report.survey import CHECKED
from demur.uncertainty.checks import Array

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
    """Labelled rows that are not wholly right; of prediction sets, those that lack something."""

    status: str
    """A `EvidenceStatus`, `REFUSED` or `COUNTED`."""

    @property
    def enough(self) -> bool:
        return self.status in (EvidenceStatus.SUFFICIENT, EvidenceStatus.EXACT_ONLY)


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
    note: str = ""
    """Why there is no interval, and what would give one; empty where that is said by the grounds."""


class Counts:
    """Columns of `COUNTS` of one tally, by name: [cells] each."""

    def __init__(self, table: Array) -> None:
        self._table = table

    def __getitem__(self, name: str) -> Array:
        return np.asarray(self._table[:, COUNTS.index(name)])


def grounds_of(counts: Counts, by: AuditPlan, cell: int, *, answered: bool = False) -> Grounds:
    """What is known of a cell, or of its answered rows."""
    a = "a_" if answered else ""
    labelled, w, w_w = (float(counts[a + name][cell]) for name in ("labelled", "w", "w_w"))
    return _grounds(
        n=int(counts["answered" if answered else "n"][cell]),
        labelled=int(labelled),
        effective=w * w / w_w if w_w > 0 else np.nan,
        events=int(counts[a + "wrong"][cell]),
        refused=_is_refused(counts, by, cell, answered=answered),
        silent=not answered and answers_are_silent(counts, by, cell),
    )


def set_grounds_of(counts: Counts, by: AuditPlan, cell: int, rows: NDArray[np.void]) -> Grounds:
    """What is known of the prediction sets of a cell, from its distinct labelled ones; an event is a set that lacks
    something."""
    labels = rows["count"] * rows["weight"]
    squares = float((labels * rows["weight"]).sum())
    return _grounds(
        n=int(counts["n"][cell]),
        labelled=int(rows["count"].sum()),
        effective=float(labels.sum()) ** 2 / squares if squares > 0 else np.nan,
        events=int(rows["count"][rows["loss"] > 0].sum()),
        refused=_is_refused(counts, by, cell, answered=False),
        silent=answers_are_silent(counts, by, cell),
    )


def few_drawn(counts: Counts) -> str:
    """Say why ranking and calibration have no interval: too few errors, or right answers, among labels that were drawn
    by chance. Empty where there are enough of both, or where every prediction was labelled.

    Held predictions are all labelled and say nothing of the answered ones, so their errors are not counted (METHODS
    10.13).
    """
    if not counts["by_chance"][0]:
        return ""
    checked, wrong = int(counts["chance_labelled"][0]), int(counts["chance_wrong"][0])
    rarer, kind = min((wrong, "wrong"), (checked - wrong, "right"))
    if rarer >= MIN_EVENTS:
        return ""
    if not checked:
        return f"no interval: no spot check has a label; at least {2 * MIN_EVENTS} are needed"
    if not rarer:
        return (
            f"no interval: none of {checked:,} spot checks found one {kind}, and {MIN_EVENTS} such are needed;"
            f" that takes more than {(MIN_EVENTS - 1) * checked:,} further spot checks, if not many more"
        )
    further = -(-checked * MIN_EVENTS // rarer) - checked
    return (
        f"no interval: {rarer:,} of {checked:,} spot checks found one {kind}, and {MIN_EVENTS} such are needed;"
        f" at this rate that takes about {further:,} further spot checks"
    )


def _is_refused(counts: Counts, by: AuditPlan, cell: int, *, answered: bool) -> bool:
    refused = (CHECKED in by.refused) if answered else bool(by.refused)
    return not by.labels_meant or (refused and bool(counts["drawn"][cell] > counts["reviewed"][cell]))


def answers_are_silent(counts: Counts, by: AuditPlan, cell: int) -> bool:
    """Whether much of a cell is answered, and none of that has a label: by chance nobody was asked, and the labels of
    the held ones would speak for all."""
    answered = counts["answered"][cell]
    return bool(not by.all_known and not counts["a_labelled"][cell] and answered * MIN_EFFECTIVE > counts["n"][cell])


def _grounds(*, n: int, labelled: int, effective: float, events: int, refused: bool, silent: bool) -> Grounds:
    if refused:
        status = REFUSED
    elif labelled == 0:
        status = EvidenceStatus.NONE.value
    elif silent or labelled < MIN_LABELLED or effective < MIN_EFFECTIVE:
        status = EvidenceStatus.INSUFFICIENT.value
    elif min(events, labelled - events) < MIN_EVENTS:
        status = EvidenceStatus.EXACT_ONLY.value
    else:
        status = EvidenceStatus.SUFFICIENT.value
    return Grounds(n=n, labelled=labelled, effective=effective, events=events, status=status)


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
    note: str = "",
) -> Estimate:
    """Nothing is said that the labels cannot carry: then there is no number, whatever came out. A `note` says why there
    is no interval, and takes it away."""
    known = grounds.enough
    bounded = known and not note and (grounds.status == EvidenceStatus.SUFFICIENT or method in (EXACT, SEQUENCE))
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
        note=note,
    )


def counted(name: str, value: Any, n: int, meaning: str) -> Estimate:
    """Return an estimate that is a count over every record, with no label needed."""
    grounds = Grounds(n=n, labelled=0, effective=np.nan, events=0, status=COUNTED)
    return Estimate(
        name=name, of="", value=number(value), lower=None, upper=None, method=None, naive=None, grounds=grounds,
        meaning=meaning,
    )  # fmt: skip


def number(value: Any) -> float | None:
    plain = float(value)
    return None if np.isnan(plain) else plain


def rest_of(share: float | None) -> float | None:
    """1 less a share, where it is known."""
    return None if share is None else 1 - share


def over(a: Any, b: Any) -> Array:
    """a / b, NaN where b is 0."""
    b = np.asarray(b, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(b > 0, np.asarray(a) / np.where(b > 0, b, 1.0), np.nan)
