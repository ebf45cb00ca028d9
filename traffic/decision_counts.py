"""How many predictions were answered and held, minute by minute: counted from the log again and again, so that nobody
has to read the records of a day to see how it went."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from demur.traffic.database import Connection, Database

HOURS = 24
"""Length of the line that is shown."""

KEPT = timedelta(hours=2 * HOURS)
"""After this time counts are deleted."""

AGAIN = timedelta(minutes=2)
"""The last minutes are counted again each time: a record is dated before it is written."""

AT_A_TIME = timedelta(minutes=30)
"""So much is counted in one transaction, where nothing was counted yet."""

COUNT = """
insert into decision_minutes (model, minute, answered, held, abstained)
select model, date_trunc('minute', created_at),
       count(*) filter (where action = 'answer'),
       count(*) filter (where action = 'review'),
       count(*) filter (where action not in ('answer', 'review'))
  from records where model = %(model)s and created_at >= %(since)s and created_at < %(until)s group by 1, 2
on conflict (model, minute) do update
   set answered = excluded.answered, held = excluded.held, abstained = excluded.abstained
"""

PER_HOUR = """
select model, floor(extract(epoch from (%(now)s - minute)) / 3600)::integer as ago,
       sum(answered)::bigint, sum(held)::bigint, sum(abstained)::bigint
  from decision_minutes where minute > %(now)s - make_interval(hours => %(hours)s) and minute <= %(now)s group by 1, 2
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionCounts:
    """What was decided in some time."""

    answered: int = 0
    held: int = 0
    abstained: int = 0

    @property
    def all(self) -> int:
        return self.answered + self.held + self.abstained


class DecisionCounter:
    """Counts the decisions of some models."""

    def __init__(self, database: Database, models: list[str]) -> None:
        self._database, self._models = database, models

    def count(self) -> None:
        """Count what is new, and forget what nobody is shown any more. To count twice, or by two, changes nothing."""
        for model in self._models:
            while self._count_some(model):
                pass
        with self._database.transaction() as connection:
            connection.execute("delete from decision_minutes where minute < now() - %s::interval", (KEPT,))

    def _count_some(self, model: str) -> bool:
        """Count the next part of one model; whether there is more."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "select date_trunc('minute', now()), max(minute) from decision_minutes where model = %s", (model,)
            ).fetchone()
            assert row is not None  # an aggregate always has one
            this_minute: datetime = row[0]
            end = this_minute + timedelta(minutes=1)
            since = this_minute - timedelta(hours=HOURS) if row[1] is None else min(row[1], this_minute) - AGAIN
            since = self._first(connection, model, since, end)
            until = min(since + AT_A_TIME, end)
            connection.execute(COUNT, {"model": model, "since": since, "until": until})
            return until < end and self._first(connection, model, until, end) < end

    @staticmethod
    def _first(connection: Connection, model: str, since: datetime, end: datetime) -> datetime:
        """The minute of the first record from `since` on; `since` where that would leave out nothing but empty
        minutes, `end` where there is none."""
        row = connection.execute(
            "select date_trunc('minute', min(created_at)) from records"
            " where model = %s and created_at >= %s and created_at < %s",
            (model, since, end),
        ).fetchone()
        return end if row is None or row[0] is None else max(row[0], since)


def last_hours(connection: Connection, now: datetime) -> Mapping[str, list[DecisionCounts]]:
    """The counts of each model that had any, for each of the last 24 hours, the oldest first."""
    found: dict[str, list[DecisionCounts]] = {}
    for model, ago, answered, held, abstained in connection.execute(PER_HOUR, {"now": now, "hours": HOURS}).fetchall():
        hours = found.setdefault(model, [DecisionCounts()] * HOURS)
        hours[HOURS - 1 - ago] = DecisionCounts(answered=answered, held=held, abstained=abstained)
    return found
