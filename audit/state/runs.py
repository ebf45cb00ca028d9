"""Audits that are to be made: planned or asked for, each made once however many processes look for them. Every function
works inside the transaction it is given.

A run is taken under a lease. `attempts` is the token of whoever holds it: once somebody else has taken it, because the
lease ran out, nothing of the former counts any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from uuid_utils.compat import uuid7

from demur.traffic.database import Connection
from demur.traffic.leases import HELD, LAPSED, TAKEN, change_held

PAUSES = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=20), timedelta(hours=1))
"""After each failed attempt but the last."""

MOST_ATTEMPTS = len(PAUSES) + 1

KEPT_DAYS = 90
"""How long runs stay that led to no report."""

MOST_ASKED = 20
"""Audits of one model that people asked for and that may be open at a time: each reads all records of its range."""

PLANNER_LOCK = 0x706C616E  # an arbitrary number that everybody who plans agrees on


class RunStatus(StrEnum):
    WAITING = "waiting"  # for somebody who takes it, or for the next attempt
    RUNNING = "running"  # waiting -> running, until the lease runs out
    DONE = "done"  # running -> done, and a report was stored
    NOTHING = "nothing"  # running -> nothing: there was nothing to audit
    FAILED = "failed"  # running -> failed, after the last attempt
    OVERTAKEN = "overtaken"  # waiting -> overtaken: a later planned one is due


class RunLost(RuntimeError):
    """The lease on a run ran out, and another process has taken it. What was made is thrown away."""


class TooManyAsked(ValueError):
    """Too many audits of the model were asked for and are not done. Ask again when some have ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditRun:
    """One audit that is to be made."""

    id: UUID
    model: str
    since: datetime
    until: datetime
    planned: bool
    asked_by: str
    asked_at: datetime
    status: RunStatus
    attempts: int
    try_at: datetime
    stage: str | None
    """What is being done, and below which part of it is done: None where nobody has said."""

    share: float | None
    error: str | None
    """What went wrong in the last attempt."""

    ended_at: datetime | None
    report_id: UUID | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", RunStatus(self.status))


COLUMNS = (
    "id, model, since, until, planned, asked_by, asked_at, status, attempts, try_at, stage, share, error, ended_at,"
    " report_id"
)


def plan(connection: Connection, models: Sequence[str], *, until: datetime, window: timedelta) -> list[AuditRun]:
    """Plan an audit of each model of the range that ends at `until`, unless that or a later one was planned before, or
    the model has been on schedule for a shorter time; return what was planned.

    Whatever lay between the last planned one and this is not made up for, and what still waits is overtaken.
    """
    connection.execute("select pg_advisory_xact_lock(%s)", (PLANNER_LOCK,))
    connection.execute(
        "insert into audit_schedules (model, begun_at) select unnest(%s::text[]), clock_timestamp()"
        " on conflict do nothing",
        (list(models),),
    )
    due = connection.execute(
        "select model from audit_schedules s where model = any(%(models)s) and begun_at < %(until)s"
        " and not exists (select from audit_runs r where r.model = s.model and r.planned and r.until >= %(until)s)"
        " order by model",
        {"models": list(models), "until": until},
    ).fetchall()
    planned = []
    for (model,) in due:
        connection.execute(
            "update audit_runs set status = 'overtaken', ended_at = clock_timestamp()"
            " where model = %s and planned and status = 'waiting'",
            (model,),
        )
        planned.append(_add(connection, model, until - window, until, planned=True, asked_by="schedule"))
    return planned


def ask(
    connection: Connection, model: str, *, since: datetime, until: datetime, asked_by: str, any_range: bool = False
) -> AuditRun:
    """Ask for an audit. One of this very range that is open and that somebody asked for is returned instead.

    With `any_range` an open one of any range will do: for a button that people press twice. Raises `TooManyAsked`.
    """
    connection.execute("select pg_advisory_xact_lock(%s)", (PLANNER_LOCK,))
    open_runs = "where model = %s and not planned and status in ('waiting', 'running')"
    if any_range:
        found = _one(connection, f"{open_runs} order by asked_at limit 1", (model,))
    else:
        found = _one(connection, f"{open_runs} and since = %s and until = %s limit 1", (model, since, until))
    if found:
        return found
    counted = connection.execute(f"select count(*) from audit_runs {open_runs}", (model,)).fetchone()
    if counted is not None and counted[0] >= MOST_ASKED:
        raise TooManyAsked(f"{counted[0]} audits of {model!r} are waiting or being made; ask again when some are done")
    return _add(connection, model, since, until, planned=False, asked_by=asked_by)


def take(connection: Connection, *, lease_seconds: float) -> AuditRun | None:
    """Take a run that is due, what people asked for first; None where there is none. Nobody else gets it for
    `lease_seconds`."""
    connection.execute(
        "update audit_runs set status = 'failed', ended_at = clock_timestamp(),"
        " error = coalesce(error, 'each attempt ended without a word: see the log of the service')"
        f" where status = 'running' and {LAPSED} and attempts >= %s",
        (MOST_ATTEMPTS,),
    )
    with connection.cursor(row_factory=class_row(AuditRun)) as cursor:
        return cursor.execute(
            f"update audit_runs set status = 'running', stage = null, share = null, {TAKEN}"
            " where id = (select id from audit_runs"
            "   where (status = 'waiting' and try_at <= clock_timestamp())"
            f"     or (status = 'running' and {LAPSED})"
            f"   order by planned, try_at limit 1 for update skip locked) returning {COLUMNS}",
            {"lease": lease_seconds},
        ).fetchone()


def keep(connection: Connection, run: AuditRun, *, stage: str, share: float, lease_seconds: float) -> None:
    """Say how far a run has come, and hold it for longer; raise `RunLost` where somebody else has it."""
    _change(
        connection,
        run,
        f"stage = %(stage)s, share = %(share)s, {HELD}",
        stage=stage,
        share=share,
        lease=lease_seconds,
    )


def done(connection: Connection, run: AuditRun, report_id: UUID) -> None:
    """Note that a report was stored in this transaction."""
    _change(
        connection,
        run,
        "status = 'done', report_id = %(report)s, error = null, ended_at = clock_timestamp()",
        report=report_id,
    )


def nothing(connection: Connection, run: AuditRun, why: str) -> None:
    """Note that there was nothing to audit."""
    _change(connection, run, "status = 'nothing', error = %(why)s, ended_at = clock_timestamp()", why=why)


def failed(connection: Connection, run: AuditRun, error: str) -> None:
    """Note what went wrong. It is tried again, after a pause that gets longer, unless it was the last attempt."""
    if run.attempts >= MOST_ATTEMPTS:
        _change(connection, run, "status = 'failed', error = %(error)s, ended_at = clock_timestamp()", error=error)
        return
    _change(
        connection,
        run,
        "status = 'waiting', error = %(error)s, leased_until = null,"
        " try_at = clock_timestamp() + make_interval(secs => %(pause)s)",
        error=error,
        pause=PAUSES[run.attempts - 1].total_seconds(),
    )


def latest_runs(connection: Connection, *, limit: int) -> list[AuditRun]:
    """What is to be made or being made, and the last run of each model where that led to no report: newest first."""
    with connection.cursor(row_factory=class_row(AuditRun)) as cursor:
        return cursor.execute(
            f"select {COLUMNS} from audit_runs r where status in ('waiting', 'running')"
            " or (status in ('nothing', 'failed') and not exists"
            "   (select from audit_runs later where later.model = r.model and later.asked_at > r.asked_at))"
            " order by asked_at desc limit %s",
            (limit,),
        ).fetchall()


def failures(connection: Connection) -> dict[str, int]:
    """By model, how many attempts have failed since the last report; 0 is left out."""
    return dict(
        connection.execute(
            "select model, sum(attempts - (status = 'running')::int)::int from audit_runs r"
            " where (status = 'failed' or (status in ('waiting', 'running') and attempts > 0)) and not exists"
            "   (select from audit_runs later where later.model = r.model and later.status in ('done', 'nothing')"
            "    and later.ended_at > r.asked_at)"
            " group by model having sum(attempts - (status = 'running')::int) > 0"
        ).fetchall()
    )


def forget_runs(connection: Connection) -> int:
    """Delete what ended without a report long ago, and return how much that was. The last planned one of each model
    stays, whatever became of it: it says up to when the schedule has come."""
    return connection.execute(
        "delete from audit_runs r where ended_at < clock_timestamp() - make_interval(days => %s) and report_id is null"
        " and exists (select from audit_runs later where later.model = r.model and later.planned"
        "   and later.until > r.until)",
        (KEPT_DAYS,),
    ).rowcount


def run_of(connection: Connection, id: UUID) -> AuditRun | None:
    return _one(connection, "where id = %s", (id,))


def _add(
    connection: Connection, model: str, since: datetime, until: datetime, *, planned: bool, asked_by: str
) -> AuditRun:
    with connection.cursor(row_factory=class_row(AuditRun)) as cursor:
        made = cursor.execute(
            "insert into audit_runs (id, model, since, until, planned, asked_by) values (%s, %s, %s, %s, %s, %s)"
            f" returning {COLUMNS}",
            (uuid7(), model, since, until, planned, asked_by),
        ).fetchone()
    assert made is not None
    return made


def _one(connection: Connection, where: str, values: tuple[Any, ...]) -> AuditRun | None:
    with connection.cursor(row_factory=class_row(AuditRun)) as cursor:
        return cursor.execute(f"select {COLUMNS} from audit_runs {where}", values).fetchone()


def _change(connection: Connection, run: AuditRun, changes: str, **values: object) -> None:
    if not change_held(connection, "audit_runs", run, changes, while_="status = 'running'", **values):
        raise RunLost(f"the audit of {run.model!r} until {run.until:%Y-%m-%d %H:%M} is in other hands")
