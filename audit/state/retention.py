"""Records whose time is up, and all that hangs on them: deleted, unless somebody still needs them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.traffic import failed_requests
from demur.traffic.database import Connection, Database

AT_ONCE = 2_000
"""Records that one transaction looks at: deleting never holds up the service for long."""

MODELS = (
    "with recursive known as ("
    "  (select model from records order by model limit 1)"
    "  union all"
    "  select (select model from records where model > known.model order by model limit 1) from known"
    "  where known.model is not null"
    ") select model from known where model is not null"
)
"""Every model of which there are records, served or not: one look into an index for each."""

PAGE = (
    "select r.id, r.created_at,"
    "  not exists (select from review_items q where q.record_id = r.id and q.ended_at is null)"
    "  and not exists (select from audit_reports a"
    "                  where a.model = r.model and a.since <= r.created_at and r.created_at < a.until)"
    "  and not exists (select from audit_runs a where a.model = r.model and a.status in ('waiting', 'running')"
    "                  and a.since <= r.created_at and r.created_at < a.until)"
    " from records r where r.model = %(model)s and r.created_at < %(before)s"
    "   and (%(last_at)s::timestamptz is null or (r.created_at, r.id) > (%(last_at)s::timestamptz, %(last_id)s::uuid))"
    "   and r.created_at >= coalesce(%(last_at)s::timestamptz, '-infinity')"
    " order by r.created_at, r.id limit %(most)s for update"
)
"""Locked before they are judged: nobody opens a case about one meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What was deleted of one model."""

    model: str
    records: int
    outcomes: int
    cases: int


def forget_records(
    database: Database, *, before: datetime, rest: Callable[[], object] | None = None
) -> list[Forgotten]:
    """Delete the records that were decided before, with their inputs, outcomes, ended cases, shadow decisions and
    Idempotency-Keys; return what was deleted, of each model of which something was.

    A record stays while a case about it is open, and while a report whose range it lies in is kept, or is to be made.
    How many went, of which model and from before when, stays on record. Failed requests of that time, which are no
    records, go as well. `rest` is called after each batch.
    """
    with database.transaction() as connection:
        models = [row[0] for row in connection.execute(MODELS).fetchall()]
    found = []
    for model in models:
        last: tuple[datetime, UUID] | None = None
        sums = [0, 0, 0]
        while True:
            with database.transaction() as connection:
                page = connection.execute(
                    PAGE,
                    {
                        "model": model,
                        "before": before,
                        "last_at": last and last[0],
                        "last_id": last and last[1],
                        "most": AT_ONCE,
                    },
                ).fetchall()
                if ids := [row[0] for row in page if row[2]]:
                    counts = _delete(connection, ids)
                    sums = [a + b for a, b in zip(sums, counts, strict=True)]
                    connection.execute(
                        "insert into forgotten_records (model, before, records, outcomes, cases)"
                        " values (%s, %s, %s, %s, %s)",
                        (model, before, *counts),
                    )
            if rest is not None:
                rest()
            if len(page) < AT_ONCE:
                break
            last = page[-1][1], page[-1][0]
        if sums[0]:
            found.append(Forgotten(model=model, records=sums[0], outcomes=sums[1], cases=sums[2]))
    _forget_failed_requests(database, before, rest)
    return found


def _forget_failed_requests(database: Database, before: datetime, rest: Callable[[], object] | None) -> None:
    """Nothing hangs on them, and no report is about them."""
    gone = AT_ONCE
    while gone == AT_ONCE:
        with database.transaction() as connection:
            gone = failed_requests.forget(connection, before=before, most=AT_ONCE)
        if rest is not None:
            rest()


def forgotten_before(connection: Connection, model: str) -> datetime | None:
    """Return the moment before which records of a model may be missing; None where none was ever deleted."""
    row = connection.execute("select max(before) from forgotten_records where model = %s", (model,)).fetchone()
    return None if row is None else row[0]


def _delete(connection: Connection, ids: list[UUID]) -> tuple[int, int, int]:
    def gone(sql: str) -> int:
        return connection.execute(sql, (ids,)).rowcount

    gone("delete from payloads where record_id = any(%s)")
    outcomes = gone("delete from outcomes where record_id = any(%s)")
    gone("delete from shadow_decisions where record_id = any(%s)")
    gone("delete from idempotency_keys where record_id = any(%s)")
    cases = gone("delete from review_items where record_id = any(%s)")
    return gone("delete from records where id = any(%s)"), outcomes, cases
