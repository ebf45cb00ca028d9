"""The queue: enqueue, claim, answer, release. Every function works inside the transaction that it is given.

One clock rules all leases, that of the database. A lease that ran out needs no sweeper: the item counts as waiting
from that moment, wherever it is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from review.item import Claim, Kind, ReviewItem, Status
from traffic import log
from traffic.database import Connection, migrations_in
from traffic.record import Answer, Outcome, Record

REVIEW_MIGRATIONS = migrations_in("review", Path(__file__).parent / "migrations")

LAPSED = "(status = 'claimed' and lease_until < clock_timestamp())"
STATUS_NOW = f"case when {LAPSED} then 'waiting' else status end"
ITEM = (
    f"select record_id, model, {STATUS_NOW} as status, created_at, token,"
    f" case when {LAPSED} then null else claimed_by end as claimed_by,"
    f" case when {LAPSED} then null else lease_until end as lease_until from review_items"
)


class ItemNotFound(LookupError):
    """This prediction was not held for review."""


class ClaimLost(RuntimeError):
    """Somebody else holds the case, or it is resolved. Take another one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """How many items are in each state."""

    waiting: int
    claimed: int
    resolved: int


def enqueue(connection: Connection, records: Sequence[Record], kind: Kind = Kind.HELD) -> None:
    """Put records into the queue. Doing it again changes nothing."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "with added as ("
            "  insert into review_items (record_id, model, status, created_at, kind)"
            "  values (%s, %s, 'waiting', %s, %s) on conflict (record_id) do nothing returning record_id"
            ") insert into review_events (record_id, to_status, token) select record_id, 'waiting', 0 from added",
            [(record.id, record.model, record.created_at, kind.value) for record in records],
        )


def backlog(connection: Connection) -> Backlog:
    row = connection.execute(
        f"select count(*) filter (where {STATUS_NOW} = 'waiting'),"
        f" count(*) filter (where {STATUS_NOW} = 'claimed'),"
        " count(*) filter (where status = 'resolved') from review_items"
    ).fetchone()
    assert row is not None
    return Backlog(waiting=row[0], claimed=row[1], resolved=row[2])


def items(connection: Connection, *, status: Status | None, limit: int, offset: int = 0) -> list[ReviewItem]:
    """Items in the order in which they are worked: oldest first. Resolved ones are listed newest first."""
    direction = "desc" if status is Status.RESOLVED else "asc"
    where = "where status <> 'resolved'"
    if status is Status.RESOLVED:
        where = "where status = 'resolved'"
    elif status:
        where += f" and {STATUS_NOW} = %(status)s"
    return _items(
        connection,
        f"{where} order by created_at {direction}, record_id {direction} limit %(limit)s offset %(offset)s",
        {"status": status, "limit": limit, "offset": offset},
    )


def item(connection: Connection, record_id: UUID) -> ReviewItem:
    found = _items(connection, "where record_id = %(id)s", {"id": record_id})
    if not found:
        raise ItemNotFound(f"the prediction {record_id} was not held for review")
    return found[0]


def find_item(connection: Connection, record_id: UUID) -> ReviewItem | None:
    return next(iter(_items(connection, "where record_id = %(id)s", {"id": record_id})), None)


def claim(connection: Connection, record_id: UUID, reviewer: str, *, lease_seconds: float) -> Claim:
    """Take one item. A reviewer who holds it already gets the lease anew, under the same token."""
    taken = _claim(
        connection,
        f"record_id = %(id)s and (status = 'waiting' or {LAPSED}"
        "  or (status = 'claimed' and claimed_by = %(reviewer)s))",
        {"id": record_id, "reviewer": reviewer, "seconds": lease_seconds},
    )
    if taken is None:
        raise ClaimLost(f"{_why_lost(connection, record_id)}; take another one")
    return taken


def claim_next(connection: Connection, reviewer: str, *, lease_seconds: float) -> Claim | None:
    """Take the oldest item that is free, or None when there is none. Two callers never get the same one."""
    return _claim(
        connection,
        "record_id = (select record_id from review_items"
        f" where status = 'waiting' or {LAPSED}"
        " order by created_at, record_id limit 1 for update skip locked)",
        {"reviewer": reviewer, "seconds": lease_seconds},
    )


def answer(connection: Connection, record_id: UUID, reviewer: str, *, token: int, label: Answer) -> Outcome:
    """Resolve a claimed item: the answer becomes an outcome, in the same transaction.

    Answering late is fine as long as nobody else has claimed the item in between.
    """
    _leave(connection, record_id, reviewer, token, Status.RESOLVED)
    return log.add_outcome(connection, record_id, label=label, source="review", author=reviewer)


def release(connection: Connection, record_id: UUID, reviewer: str, *, token: int) -> None:
    """Give a claimed item back unanswered."""
    _leave(connection, record_id, reviewer, token, Status.WAITING)


def forget_inputs(connection: Connection) -> int:
    """Delete the inputs whose time is up, except of cases that a person has yet to look at; return how many."""
    return connection.execute(
        "delete from payloads p where expires_at < clock_timestamp() and not exists ("
        "  select 1 from review_items i where i.record_id = p.record_id and i.status <> 'resolved')"
    ).rowcount


def _claim(connection: Connection, which: str, values: dict[str, Any]) -> Claim | None:
    row: tuple[UUID, int, datetime, bool] | None = connection.execute(
        # the row is locked before it is judged, so of two claims the second sees what the first did
        f"with free as (select record_id, status, claimed_by from review_items where {which} for update),"
        " taken as (update review_items i set status = 'claimed', claimed_by = %(reviewer)s,"
        "   lease_until = clock_timestamp() + make_interval(secs => %(seconds)s),"
        "   token = i.token + case when free.status = 'claimed' and free.claimed_by = %(reviewer)s"
        "     then 0 else 1 end"
        "   from free where i.record_id = free.record_id"
        "   returning i.record_id, i.token, i.lease_until, free.status as before, free.claimed_by as holder),"
        " noted as (insert into review_events (record_id, actor, from_status, to_status, token)"
        "   select record_id, %(reviewer)s, before, 'claimed', token from taken"
        "   where not (before = 'claimed' and holder = %(reviewer)s))"
        " select record_id, token, lease_until from taken",
        values,
    ).fetchone()
    if row is None:
        return None
    return Claim(record_id=row[0], reviewer=values["reviewer"], token=row[1], lease_until=row[2])


def _why_lost(connection: Connection, record_id: UUID) -> str:
    now = item(connection, record_id)
    if now.status is Status.WAITING:
        return "your time for this case ran out; claim it again"
    return f"this case {'was resolved by' if now.status is Status.RESOLVED else 'is with'} {now.claimed_by}"


def _leave(connection: Connection, record_id: UUID, reviewer: str, token: int, to: Status) -> None:
    """End a claim; raise `ClaimLost` if it is not this one that holds the item."""
    changed = connection.execute(
        "update review_items set status = %(to)s, lease_until = null,"
        " claimed_by = case when %(to)s = 'resolved' then claimed_by end"
        " where record_id = %(id)s and status = 'claimed' and claimed_by = %(reviewer)s and token = %(token)s",
        {"to": to.value, "id": record_id, "reviewer": reviewer, "token": token},
    ).rowcount
    if changed == 0:
        raise ClaimLost(_why_lost(connection, record_id))
    connection.execute(
        "insert into review_events (record_id, actor, from_status, to_status, token)"
        " values (%s, %s, 'claimed', %s, %s)",
        (record_id, reviewer, to.value, token),
    )


def _items(connection: Connection, rest: str, values: dict[str, Any]) -> list[ReviewItem]:
    with connection.cursor(row_factory=kwargs_row(_item_of)) as cursor:
        cursor.execute(f"{ITEM} {rest}", values)
        return cursor.fetchall()


def _item_of(*, status: str, **columns: Any) -> ReviewItem:
    return ReviewItem(status=Status(status), **columns)
