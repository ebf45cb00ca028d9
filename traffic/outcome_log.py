"""Writing many outcomes at once, each of them once for an Idempotency-Key. Every function works inside the transaction
that it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson
from psycopg.rows import class_row

from demur.traffic.database import Connection
from demur.traffic.log import KEYED, OUTCOMES_CHANNEL
from demur.traffic.record import Answer, KeyUse, Outcome

MODELS = "select id, model from records where id = any(%s) order by id for key share"

APPEND = """
insert into outcomes (record_id, label, source, author)
select record_id, label, source, author from json_to_recordset(%s::json) as told (
    position integer, record_id uuid, label json, source text, author text) order by position
returning label, source, author, created_at
"""

CLAIM = (
    "insert into idempotency_keys (key, position, fingerprint, record_id)"
    f" select %(key)s, position, {KEYED.format(key='%(key)s', fingerprint='%(fingerprint)s')}, record_id"
    " from unnest(%(positions)s::integer[], %(records)s::uuid[]) told (position, record_id), digest_keys"
    " order by position on conflict (key, position) do nothing returning position"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewOutcome:
    """The truth about one prediction, as it is to be written."""

    record_id: UUID
    label: Answer
    source: str
    author: str | None


def models_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """The models of these records, as far as they exist. None of them is deleted before the transaction ends."""
    return dict(connection.execute(MODELS, (list(ids),)).fetchall())


def append(connection: Connection, told: Sequence[NewOutcome]) -> list[Outcome]:
    """Append outcomes of existing records in this order, and return them as they were written. Whoever waits for one of
    the records is told when the transaction has committed."""
    if not told:
        return []
    rows = orjson.dumps([{"position": at, **_row(one)} for at, one in enumerate(told)]).decode()
    with connection.cursor(row_factory=class_row(Outcome)) as cursor:
        written = cursor.execute(APPEND, (rows,)).fetchall()
    records = list({one.record_id for one in told})
    connection.execute(
        "select pg_notify(%s, record::text) from unnest(%s::uuid[]) told (record)", (OUTCOMES_CHANNEL, records)
    )
    return written


def claim(connection: Connection, use: KeyUse, records: Mapping[int, UUID]) -> set[int]:
    """Take a key for outcomes of these records, by position; return the positions at which it was free. Waits for a
    transaction that is about to commit the same key."""
    told = {"key": use.stored, "fingerprint": use.fingerprint}
    taken = connection.execute(CLAIM, {**told, "positions": list(records), "records": list(records.values())})
    return {position for (position,) in taken.fetchall()}


def outcomes_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, list[Outcome]]:
    """All outcomes of these records, each record's oldest first."""
    found: dict[UUID, list[Outcome]] = {record_id: [] for record_id in ids}
    rows = connection.execute(
        "select record_id, label, source, author, created_at from outcomes where record_id = any(%s) order by id",
        (list(found),),
    )
    for record_id, label, source, author, at in rows:
        found[record_id].append(Outcome(label=label, source=source, author=author, created_at=at))
    return found


def _row(told: NewOutcome) -> dict[str, object]:
    return {"record_id": told.record_id, "label": told.label, "source": told.source, "author": told.author}
