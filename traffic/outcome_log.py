"""Writing many outcomes at once, each of them once for an Idempotency-Key. Every function works inside the transaction
that it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from demur.traffic import corrected_replies
from demur.traffic.database import Connection
from demur.traffic.log import KEYED, OUTCOMES_CHANNEL
from demur.traffic.record import Answer, KeyUse, Outcome

MODELS = "select id, model from records where id = any(%s) order by id for key share"

APPEND = """
insert into outcomes (record_id, label, source, author)
select record_id, label, source, author from json_to_recordset(%s::json) as told (
    position integer, record_id uuid, label json, source text, author text) order by position
returning id, created_at
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
    text: str | None = None
    """What should have been written in the place of the reply."""


def models_of(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """The models of these records, as far as they exist. None of them is deleted before the transaction ends."""
    return dict(connection.execute(MODELS, (list(ids),)).fetchall())


def append(connection: Connection, told: Sequence[NewOutcome]) -> list[Outcome]:
    """Append outcomes of existing records in this order, and return them as they were written: without a text where the
    reply is no longer kept. Whoever waits for one of the records is told when the transaction has committed."""
    if not told:
        return []
    rows = orjson.dumps([{"position": at, **_row(one)} for at, one in enumerate(told)]).decode()
    written = connection.execute(APPEND, (rows,)).fetchall()
    texts = {row[0]: (one.record_id, one.text) for row, one in zip(written, told, strict=True) if one.text is not None}
    kept = corrected_replies.keep(connection, texts) if texts else set()
    records = list({one.record_id for one in told})
    connection.execute(
        "select pg_notify(%s, record::text) from unnest(%s::uuid[]) told (record)", (OUTCOMES_CHANNEL, records)
    )
    return [
        Outcome(
            label=one.label,
            source=one.source,
            author=one.author,
            created_at=at,
            text=one.text if outcome_id in kept else None,
        )
        for (outcome_id, at), one in zip(written, told, strict=True)
    ]


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
        f"select o.record_id, {corrected_replies.OUTCOME} where o.record_id = any(%s) order by o.id",
        (list(found),),
    )
    for record_id, label, source, author, at, text, codes in rows:
        told = Outcome(label=label, source=source, author=author, created_at=at, text=text, codes=codes)
        found[record_id].append(told)
    return found


def _row(told: NewOutcome) -> dict[str, object]:
    return {"record_id": told.record_id, "label": told.label, "source": told.source, "author": told.author}
