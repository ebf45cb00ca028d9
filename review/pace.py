"""How fast cases are resolved: the one figure for how long work takes, wherever a time is told."""

from dataclasses import dataclass
from math import inf

from demur.review.cases import IN_SCOPE, scope_values
from demur.review.item import EVERYTHING, ReviewerScope
from demur.traffic.database import Connection

LATEST_ENDED = 1_000
"""So many of the cases that ended last, and none that ended more than an hour ago, say how fast it goes."""

HOUR = 3600.0

SHORTEST_SECONDS = 4.0
"""A pace is told for no less time, so that no single case makes it endless."""

PACE = (
    "select count(*), count(*) filter (where status = 'resolved'),"
    " extract(epoch from clock_timestamp() - min(ended_at))::float8 from ("
    "  select status, ended_at from review_items where ended_at > clock_timestamp() - interval '1 hour'"
    f"  and {IN_SCOPE} order by ended_at desc limit %(most)s) latest"
)

BEGAN = (
    f"select case when not exists (select from review_items where created_at < hour and {IN_SCOPE}) then"
    f" (select extract(epoch from clock_timestamp() - min(created_at))::float8 from review_items where {IN_SCOPE}) end"
    " from (select clock_timestamp() - interval '1 hour' as hour) clock"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewPace:
    """How many cases people resolved in the last hour, or since the first case came within it; of very many the last
    thousand."""

    resolved: int
    seconds: float
    """In this time."""

    def hours_for(self, cases: int) -> float:
        """How long so many take at this pace; infinite where nothing was resolved."""
        if not self.resolved:
            return inf if cases else 0.0
        return cases * self.seconds / self.resolved / HOUR


def pace(connection: Connection, scope: ReviewerScope = EVERYTHING) -> ReviewPace:
    """Return the pace with the cases in a scope. Reads no more than `LATEST_ENDED` entries of an index to count."""
    values = {**scope_values(scope), "most": LATEST_ENDED}
    n, resolved, since_first = connection.execute(PACE, values).fetchone() or (0, 0, None)
    if n == LATEST_ENDED:
        return ReviewPace(resolved=resolved, seconds=max(since_first, 1.0))
    (began,) = connection.execute(BEGAN, values).fetchone() or (None,)
    return ReviewPace(resolved=resolved, seconds=HOUR if began is None else min(max(began, SHORTEST_SECONDS), HOUR))
