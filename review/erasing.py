"""Erasing what came with a prediction, and what people typed over it and never sent."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.review import queue
from demur.traffic import log
from demur.traffic.database import Connection

WHY = "its input was erased"


@dataclass(frozen=True, kw_only=True, slots=True)
class Erasure:
    """That the input and the reply of a prediction are gone for good."""

    id: UUID
    at: datetime
    by_whom: str


def erase(connection: Connection, record_id: UUID, by_whom: str) -> Erasure:
    """Delete the input and the reply of a prediction, texts that correct the reply, its group and cluster, drafts about
    it, and what is kept of what webhooks were told of it; withdraw what is still open about it, because nobody could
    look at it any more. The record, its outcomes and what else people said stay.

    Doing it again changes nothing, and returns who did it first; it deletes what came back from a backup, or what an
    older version had left. Raises `RecordNotFound`.
    """
    if erased(connection, record_id) is None:
        log.find_one(connection, record_id)
        connection.execute(
            "insert into erased_payloads (record_id, by_whom) values (%s, %s) on conflict do nothing",
            (record_id, by_whom),
        )
    cases = connection.execute(  # first, as whoever answers does it: else the two could wait for each other
        "select id, ended_at is null and status <> 'answered' from review_items where record_id = %s order by id"
        " for update",
        (record_id,),
    ).fetchall()
    connection.execute("delete from payloads where record_id = %s", (record_id,))  # corrected texts go with it
    connection.execute('update records set "group" = null, cluster = null where id = %s', (record_id,))
    connection.execute(log.FORGET_KEYS.format(ids="%s"), (record_id,))
    ids = [case_id for case_id, _ in cases]
    connection.execute('update review_items set "group" = null where id = any(%s)', (ids,))
    connection.execute("delete from review_drafts where case_id = any(%s)", (ids,))
    connection.execute("update webhook_deliveries set body = null where case_id = any(%s)", (ids,))
    for case_id, unanswered in cases:
        if unanswered:  # what was answered just now still counts
            queue.withdraw(connection, case_id, by_whom, why=WHY)
    done = erased(connection, record_id)
    assert done is not None
    return done


def erased(connection: Connection, record_id: UUID) -> Erasure | None:
    """Who erased what came with a prediction, and when; None where nobody did."""
    row: tuple[datetime, str] | None = connection.execute(
        "select at, by_whom from erased_payloads where record_id = %s", (record_id,)
    ).fetchone()
    return None if row is None else Erasure(id=record_id, at=row[0], by_whom=row[1])
