"""Work on the artifacts of a model that takes long, each done once however many processes look for it. Every function
works inside the transaction that it is given.

A job is taken under a lease. `attempts` is the token of whoever holds it: once somebody else has taken it, because the
lease ran out, nothing of the former counts any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

import orjson
from psycopg.rows import class_row

from demur.traffic.database import Connection
from demur.traffic.leases import HELD, LAPSED, TAKEN, change_held

MOST_ATTEMPTS = 2
"""A process that died may have been killed by chance; one that dies twice was not."""

MOST_OPEN = 20
"""Jobs that may wait or run for one model."""

KEPT_DAYS = 90

Kind = Literal["fit", "compare", "replay"]


class JobStatus(StrEnum):
    WAITING = "waiting"  # for a process that takes it
    RUNNING = "running"  # waiting -> running, until the lease runs out
    DONE = "done"  # running -> done, and there is a result
    FAILED = "failed"  # running -> failed, with a reason


class JobLost(RuntimeError):
    """The lease on a job ran out, and another process has taken it. What was made is thrown away."""


class TooManyJobs(RuntimeError):
    """Too many jobs wait for one model. Ask again when some have ended."""


class JobNotFound(LookupError):
    """No job has this id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelJob:
    """One piece of work."""

    id: UUID
    model: str
    kind: Kind
    settings: Mapping[str, Any]
    asked_by: str
    asked_at: datetime
    status: JobStatus
    attempts: int
    share: float | None
    error: str | None
    result: Any
    ended_at: datetime | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", JobStatus(self.status))


COLUMNS = "id, model, kind, settings, asked_by, asked_at, status, attempts, share, error, result, ended_at"


def ask(
    connection: Connection, id: UUID, model: str, kind: Kind, settings: Mapping[str, Any], *, asked_by: str
) -> ModelJob:
    """Ask for a job. Raises `TooManyJobs`."""
    connection.execute("select pg_advisory_xact_lock(hashtext('model_jobs'), hashtext(%s))", (model,))
    waiting = connection.execute(
        "select count(*) from model_jobs where model = %s and status in ('waiting', 'running')", (model,)
    ).fetchone()
    if waiting and waiting[0] >= MOST_OPEN:
        raise TooManyJobs(f"{waiting[0]} jobs of model {model!r} wait already; ask again when some have ended")
    connection.execute(
        "insert into model_jobs (id, model, kind, settings, asked_by) values (%s, %s, %s, %s, %s)",
        (id, model, kind, orjson.dumps(dict(settings)).decode(), asked_by),
    )
    return job_of(connection, id)


def job_of(connection: Connection, id: UUID) -> ModelJob:
    """Return a job. Raises `JobNotFound`."""
    with connection.cursor(row_factory=class_row(ModelJob)) as cursor:
        found = cursor.execute(f"select {COLUMNS} from model_jobs where id = %s", (id,)).fetchone()
    if found is None:
        raise JobNotFound(f"there is no job {id}")
    return found


def latest_jobs(connection: Connection, model: str, *, limit: int) -> list[ModelJob]:
    """Return the latest jobs of a model, the newest first, without their results."""
    columns = COLUMNS.replace("result", "null as result")
    with connection.cursor(row_factory=class_row(ModelJob)) as cursor:
        return cursor.execute(
            f"select {columns} from model_jobs where model = %s order by asked_at desc, id desc limit %s",
            (model, limit),
        ).fetchall()


def take(connection: Connection, *, lease_seconds: float) -> ModelJob | None:
    """Take the job that has waited longest; None where there is none. Nobody else gets it for `lease_seconds`."""
    connection.execute(
        "update model_jobs set status = 'failed', ended_at = clock_timestamp(),"
        " error = coalesce(error, 'the process that did it ended without a word: see the log of the service')"
        f" where status = 'running' and {LAPSED} and attempts >= %s",
        (MOST_ATTEMPTS,),
    )
    with connection.cursor(row_factory=class_row(ModelJob)) as cursor:
        return cursor.execute(
            f"update model_jobs set status = 'running', share = null, {TAKEN} where id = (select id from model_jobs"
            f"   where status = 'waiting' or (status = 'running' and {LAPSED})"
            f"   order by asked_at, id limit 1 for update skip locked) returning {COLUMNS}",
            {"lease": lease_seconds},
        ).fetchone()


def keep(connection: Connection, job: ModelJob, *, share: float, lease_seconds: float) -> None:
    """Say how much of a job is done, and hold it for longer. Raises `JobLost` where somebody else has it."""
    _change(connection, job, f"share = %(share)s, {HELD}", share=share, lease=lease_seconds)


def done(connection: Connection, job: ModelJob, result: Any) -> None:
    """Store the result of a job. Raises `JobLost`."""
    _change(
        connection,
        job,
        "status = 'done', share = 1, error = null, result = %(result)s, ended_at = clock_timestamp()",
        result=orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY).decode(),
    )


def keep_result(connection: Connection, job: ModelJob, result: Any) -> None:
    """Store what a job found before it failed. Raises `JobLost`."""
    text = orjson.dumps(result, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    _change(connection, job, "result = %(result)s", result=text)


def failed(connection: Connection, job: ModelJob, error: str) -> None:
    """Store why a job failed. Raises `JobLost`."""
    _change(connection, job, "status = 'failed', error = %(error)s, ended_at = clock_timestamp()", error=error)


def forget_jobs(connection: Connection) -> int:
    """Delete jobs that ended long ago, and return how many."""
    return connection.execute(
        "delete from model_jobs where ended_at < clock_timestamp() - make_interval(days => %s)", (KEPT_DAYS,)
    ).rowcount


def _change(connection: Connection, job: ModelJob, changes: str, **values: object) -> None:
    if not change_held(connection, "model_jobs", job, changes, while_="status = 'running'", **values):
        raise JobLost(f"job {job.id} ({job.kind} of {job.model!r}) is in other hands")
