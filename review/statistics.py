"""How the queue has fared over a stretch of time: what came, what was done, how long it took, what is left.

A case is open from when it came until it is resolved, expired or withdrawn.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import nan
from typing import Any

from demur.review.cases import IN_SCOPE
from demur.review.item import EVERYTHING, ReviewerScope
from demur.traffic.database import Connection


class EmptyWindow(ValueError):
    """The window ends before it begins. Swap its ends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StatisticsWindow:
    """[since, until), and which cases are looked at."""

    since: datetime
    until: datetime
    scope: ReviewerScope = EVERYTHING

    def __post_init__(self) -> None:
        if not self.since < self.until:
            raise EmptyWindow(f"the window ends at {self.until}, not after {self.since}, where it begins")

    @property
    def values(self) -> dict[str, Any]:
        """The window as parameters of a query."""
        return {
            "since": self.since,
            "until": self.until,
            "models": None if self.scope.models is None else list(self.scope.models),
            "groups": None if self.scope.groups is None else list(self.scope.groups),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """How long `n` cases took, in seconds from when they came. NaN where n is 0."""

    n: int
    median: float
    p95: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """What came and went in a window."""

    model: str | None
    """None: all of them together."""

    open: int
    """At its end."""

    arrived: int
    ended: int
    resolved: int
    """Of those that ended."""

    to_first_claim: Waits
    """Of the cases first claimed in the window."""

    to_resolution: Waits
    """Of the cases resolved in the window."""

    resolved_per_hour: float
    """Over the hours of the window in which there was a queue at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BacklogCurve:
    """How many cases were open at `n + 1` points of time, and how many came and went between each two of them."""

    at: list[datetime]
    open: list[int]
    arrived: list[int]
    ended: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueState:
    """One model's queue as it is now."""

    model: str
    waiting: int
    claimed: int
    adjudication: int
    overdue: int
    oldest_seconds: float
    """The age of the oldest case that nobody has; 0 where there is none."""

    resolved_last_hour: int
    compared: int
    """Cases resolved in the last seven days about which more than one person spoke."""

    disagreed: int
    """Of these, those on which they did not all say the same."""

    @classmethod
    def empty(cls, model: str) -> "QueueState":
        return cls(
            model=model,
            waiting=0,
            claimed=0,
            adjudication=0,
            overdue=0,
            oldest_seconds=0.0,
            resolved_last_hour=0,
            compared=0,
            disagreed=0,
        )


OPEN_WITHIN = f"created_at < %(until)s and (ended_at is null or ended_at >= %(since)s) and {IN_SCOPE}"

CLAIMED = "first_claimed_at >= %(since)s and first_claimed_at < %(until)s"
RESOLVED = "status = 'resolved' and ended_at >= %(since)s and ended_at < %(until)s"
MIDDLE_AND_MOST = "percentile_cont(array[0.5, 0.95]) within group (order by greatest(0, extract(epoch from {})))"


def now(connection: Connection) -> datetime:
    """By the clock that rules the queue."""
    row = connection.execute("select clock_timestamp()").fetchone()
    assert row is not None
    found: datetime = row[0]
    return found


def flows(connection: Connection, window: StatisticsWindow) -> list[Flow]:
    """All models together first, then each that had a case open in the window, by name."""
    rows = connection.execute(
        "select grouping(model) = 1, model,"
        " count(*) filter (where ended_at is null or ended_at >= %(until)s),"
        " count(*) filter (where created_at >= %(since)s),"
        " count(*) filter (where ended_at < %(until)s),"
        f" count(*) filter (where {RESOLVED}), count(*) filter (where {CLAIMED}),"
        f" {MIDDLE_AND_MOST.format('first_claimed_at - created_at')} filter (where {CLAIMED}),"
        f" {MIDDLE_AND_MOST.format('ended_at - created_at')} filter (where {RESOLVED})"
        f" from review_items where {OPEN_WITHIN} group by grouping sets ((), (model)) order by 1 desc, 2",
        window.values,
    ).fetchall()
    hours = (window.until - max(window.since, _begun(connection, window))) / timedelta(hours=1)
    return [
        Flow(
            model=None if total else model,
            open=still,
            arrived=arrived,
            ended=ended,
            resolved=resolved,
            to_first_claim=_waits(n_claimed, claimed),
            to_resolution=_waits(resolved, took),
            resolved_per_hour=resolved / hours,
        )
        for total, model, still, arrived, ended, resolved, n_claimed, claimed, took in rows
    ]


def backlog_curve(connection: Connection, window: StatisticsWindow, *, points: int = 60) -> BacklogCurve:
    """The number of open cases at the ends of `points` equal parts of the window."""
    arrived, ended = [0] * (points + 1), [0] * (points + 1)  # by part; the first holds what was before the window
    rows = connection.execute(
        "with live as (select created_at, ended_at from review_items"
        f"   where {OPEN_WITHIN}),"
        " ends as (select extract(epoch from %(since)s::timestamptz)::float8 as low,"
        "   extract(epoch from %(until)s::timestamptz)::float8 as high)"
        " select way, width_bucket(extract(epoch from at)::float8, low, high, %(n)s) as part, count(*) from ("
        "   select 'in' as way, created_at as at from live"
        "   union all select 'out', ended_at from live where ended_at < %(until)s) moves, ends group by way, part",
        {**window.values, "n": points},
    ).fetchall()
    for way, part, count in rows:
        counts = arrived if way == "in" else ended
        counts[min(part, points)] += count  # the last microsecond may round up to the end
    still = [arrived[0]]
    for came, went in zip(arrived[1:], ended[1:], strict=True):
        still.append(still[-1] + came - went)
    length = window.until - window.since
    return BacklogCurve(
        at=[window.since + length * part / points for part in range(points + 1)],
        open=still,
        arrived=arrived[1:],
        ended=ended[1:],
    )


def standings(connection: Connection) -> list[QueueState]:
    """The queue of each model that ever had a case open in the last seven days, by name."""
    rows = connection.execute(
        "with still as (select model, count(*) filter (where status = 'waiting') as waiting,"
        "   count(*) filter (where status = 'claimed') as claimed,"
        "   count(*) filter (where status = 'adjudication') as adjudication,"
        "   count(*) filter (where due_at < now()) as overdue,"
        "   min(created_at) filter (where status in ('waiting', 'adjudication')) as oldest"
        "   from review_items where status in ('waiting', 'claimed', 'answered', 'adjudication') group by model),"
        " done as (select model,"
        "   count(*) filter (where ended_at >= now() - interval '1 hour') as last_hour,"
        "   count(*) filter (where opinions_wanted > 1 or kind = 're_review') as compared,"
        "   count(*) filter (where (opinions_wanted > 1 or kind = 're_review') and resolution <> 'agreed') as disagreed"
        "   from review_items where status = 'resolved' and ended_at >= now() - interval '7 days'"
        "   group by model)"
        " select model, coalesce(waiting, 0), coalesce(claimed, 0), coalesce(adjudication, 0), coalesce(overdue, 0),"
        " coalesce(greatest(0, extract(epoch from now() - oldest)), 0)::float8,"
        " coalesce(last_hour, 0), coalesce(compared, 0), coalesce(disagreed, 0)"
        " from still full join done using (model) order by model"
    ).fetchall()
    return [
        QueueState(
            model=row[0],
            waiting=row[1],
            claimed=row[2],
            adjudication=row[3],
            overdue=row[4],
            oldest_seconds=row[5],
            resolved_last_hour=row[6],
            compared=row[7],
            disagreed=row[8],
        )
        for row in rows
    ]


def _begun(connection: Connection, window: StatisticsWindow) -> datetime:
    """When the first case came, or any time before the window."""
    row = connection.execute(
        "select case when exists (select from review_items where ended_at < %(since)s) then %(since)s"
        f" else (select min(created_at) from review_items where {OPEN_WITHIN}) end",
        window.values,
    ).fetchone()
    assert row is not None
    return row[0] or window.since


def _waits(n: int, quantiles: list[float] | None) -> Waits:
    median, p95 = quantiles if quantiles else (nan, nan)
    return Waits(n=n, median=float(median), p95=float(p95))
