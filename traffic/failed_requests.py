"""Writing and counting requests that got an error because a model could not be asked."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime

from demur.traffic.database import Connection
from demur.traffic.record import FailedRequest

COLUMNS = 'id, created_at, model, "group", status, reason, retry_after, passed_to, request_id'


@dataclass(frozen=True, kw_only=True, slots=True)
class FailureCount:
    """Failures of one model that were alike."""

    model: str
    status: int
    passed_to: str | None
    n: int
    first: datetime
    last: datetime
    reason: str
    """Of the latest one."""


def append(connection: Connection, failures: Sequence[FailedRequest]) -> None:
    """Write them. Doing it again changes nothing."""
    places = ", ".join(["%s"] * (COLUMNS.count(",") + 1))
    with connection.cursor() as cursor:
        cursor.executemany(
            f"insert into failed_requests ({COLUMNS}) values ({places}) on conflict (id) do nothing",
            [tuple(_storable(value) for value in astuple(failure)) for failure in failures],
        )


def count(
    connection: Connection, *, model: str | None, since: datetime | None, until: datetime | None
) -> list[FailureCount]:
    """Count those in [since, until), of one model or of all: by model, status and who was asked instead."""
    rows = connection.execute(
        "select model, status, passed_to, count(*), min(created_at), max(created_at),"
        "       (array_agg(reason order by created_at desc))[1]"
        " from failed_requests"
        " where (%(model)s::text is null or model = %(model)s)"
        "   and created_at >= coalesce(%(since)s::timestamptz, '-infinity')"
        "   and created_at < coalesce(%(until)s::timestamptz, 'infinity')"
        " group by model, status, passed_to order by model, status, passed_to nulls first",
        {"model": model, "since": since, "until": until},
    ).fetchall()
    return [
        FailureCount(model=row[0], status=row[1], passed_to=row[2], n=row[3], first=row[4], last=row[5], reason=row[6])
        for row in rows
    ]


def forget(connection: Connection, *, before: datetime, most: int) -> int:
    """Delete up to so many that are older, and return how many these were."""
    return connection.execute(
        "delete from failed_requests where id in"
        " (select id from failed_requests where created_at < %s order by created_at limit %s)",
        (before, most),
    ).rowcount


def _storable(value: object) -> object:
    """PostgreSQL keeps no character 0 in a text."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
