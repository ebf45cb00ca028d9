"""Writing and reading the log. Every function works on the connection that it is given, in its transaction if one is
open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any
from uuid import UUID

import orjson
from psycopg.rows import class_row

from demur.traffic import corrected_replies
from demur.traffic.database import Connection
from demur.traffic.record import Answer, Entry, KeyUse, Outcome, Record, ShadowDecision

RECORD_COLUMNS = (
    'id, created_at, model, artifact, "group", prediction, top_labels, top_probabilities,'
    " label_confidence, prediction_set, scores, confidence, action, reason, label_probability, timings, steps, cost,"
    " cluster"
)
PAYLOAD_COLUMNS = "record_id, input, expires_at, reply, output"
SHADOW_COLUMNS = "record_id, artifact, prediction, confidence, action, reason, prediction_set"

APPEND = f"""
with told as materialized (
    select * from json_to_recordset(%s::json) as told (
        id uuid, created_at timestamptz, model text, artifact text, "group" text, prediction json, top_labels text[],
        top_probabilities float8[], label_confidence float8[], prediction_set text[], scores json, confidence float8,
        action text, reason text, label_probability float8, timings json, steps json, cost jsonb, cluster text)
), kept as (
    insert into records ({RECORD_COLUMNS}) select {RECORD_COLUMNS} from told on conflict (id) do nothing
)
insert into payloads ({PAYLOAD_COLUMNS})
select {PAYLOAD_COLUMNS} from json_to_recordset(%s::json) as told (
    record_id uuid, input json, expires_at timestamptz, reply json, output json)
on conflict (record_id) do nothing
"""
"""One statement for many records: as JSON they are written and read without a loop in Python, in one turn to the server
and back."""

ZERO = r"\u0000"
"""How JSON has the character 0, which PostgreSQL keeps within a value of type json, and cannot take one apart with."""

LARGEST_STATEMENT = 64 * 2**20
"""Characters of inputs in one statement; PostgreSQL takes up to a gigabyte."""

KEYED = (
    "'\\x01'::bytea || sha256(outer_key || sha256(inner_key || convert_to({key}, 'UTF8') || '\\x00'::bytea ||"
    " {fingerprint}))"
)
"""What is kept of the digest of a request: to make it takes the keys of this database, and that of the caller."""

FORGOTTEN = (
    "'forgotten ' || encode(sha256(outer_key || sha256(inner_key || '\\x00'::bytea || convert_to({key}, 'UTF8'))),"
    " 'hex')"
)
"""What a caller's key is called once its input was deleted. No key of a caller holds a blank."""

CLAIM_KEYS = (
    "insert into idempotency_keys (key, position, fingerprint, record_id)"
    f" select key, position, {KEYED.format(key='key', fingerprint='digest')}, record_id"
    " from rows from (json_to_recordset(%s::json) as (key text, position integer, digest bytea, record_id uuid))"
    " with ordinality told (key, position, digest, record_id, place),"
    ' digest_keys order by key collate "C", position, place'
    " on conflict (key, position) do nothing returning record_id"
)
"""As JSON, like the records: the driver writes an array value by value."""

FIND_KEYS = (
    "select n, told.key, position, record_id,"
    f" fingerprint in ({KEYED.format(key='told.key', fingerprint='asked')},"
    "                  asked)"  # as an older version may have written it a moment ago
    " from unnest(%s::integer[], %s::text[], %s::bytea[]) told (n, key, asked), digest_keys, idempotency_keys kept"
    f" where kept.key = any(array[told.key, {FORGOTTEN.format(key='told.key')}])"
)

FORGET_KEYS = (
    f"update idempotency_keys set key = {FORGOTTEN.format(key='key')},"
    f" fingerprint = case when octet_length(fingerprint) = 33 then fingerprint"
    f"   else {KEYED.format(key='key', fingerprint='fingerprint')} end"
    " from digest_keys where record_id in ({ids}) and key not like 'forgotten %%'"
)
"""Keep of the keys of these records, whose inputs are deleted, no more than it takes to recognise a retry: whoever
shows the key again is answered as before, and without it nobody can try out what the input may have been."""

OUTCOMES_CHANNEL = "demur_outcomes"
"""Where the id of a record is told when there is news about it, to whoever waits for them."""


class KeyReused(ValueError):
    """The Idempotency-Key was used before, with another input. Use a new key for a new input."""


class RecordNotFound(LookupError):
    """No prediction has this id."""


def append(connection: Connection, entries: Sequence[Entry]) -> None:
    """Write the records, their inputs and replies, and what was decided in the shadow. Again, it changes nothing.
    Without a shadow it is all there or not at all, whether or not a transaction is open."""
    payloads = _json(
        [
            {
                "record_id": entry.record.id,
                "input": entry.input,
                "expires_at": entry.input_expires_at,
                "reply": entry.record.reply,
                "output": entry.output,
            }
            for entry in entries
        ]
    )
    if len(payloads) > LARGEST_STATEMENT and len(entries) > 1:
        half = len(entries) // 2
        with connection.transaction():
            append(connection, entries[:half])
            append(connection, entries[half:])
        return
    records = _json([entry.record for entry in entries])
    if ZERO in records or ZERO in payloads:
        with connection.transaction():
            append_plainly(connection, entries)
        return
    connection.execute(APPEND, (records, payloads), prepare=True)
    _append_shadows(connection, entries)


def append_plainly(connection: Connection, entries: Sequence[Entry]) -> None:
    """Write entries value by value, more slowly than `append`. It takes what one statement in JSON cannot carry."""
    for table, columns, rows in (
        ("records", RECORD_COLUMNS, [_row(entry.record) for entry in entries]),
        ("payloads", PAYLOAD_COLUMNS, [_payload_row(entry) for entry in entries]),
    ):
        places = ", ".join(["%s"] * (columns.count(",") + 1))
        with connection.cursor() as cursor:
            cursor.executemany(f"insert into {table} ({columns}) values ({places}) on conflict do nothing", rows)
    _append_shadows(connection, entries)


def _append_shadows(connection: Connection, entries: Sequence[Entry]) -> None:
    rows = [_shadow_row(entry.record.id, entry.shadow) for entry in entries if entry.shadow]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(
                f"insert into shadow_decisions ({SHADOW_COLUMNS}) values (%s, %s, %s, %s, %s, %s, %s)"
                " on conflict (record_id) do nothing",
                rows,
            )


def draw_key(connection: Connection) -> str:
    """The secret of this database from which draws are made: `demur.traffic.draw`."""
    row = connection.execute("select key from draw_key").fetchone()
    assert row is not None  # the migration that made the table put it there
    return str(row[0])


def claim_keys(connection: Connection, uses: Mapping[UUID, KeyUse]) -> set[UUID]:
    """Take the key of each of these records, by id; return the ids of those that came too late for theirs.

    Of several records with the same key, the first one takes it. Waits for a transaction that is about to commit the
    same key. Keys are taken in one order everywhere, so two gateways cannot wait for each other.
    """
    if not uses:
        return set()
    told = [
        {"key": use.stored, "position": use.position, "digest": rf"\x{use.fingerprint.hex()}", "record_id": record_id}
        for record_id, use in uses.items()
    ]
    taken = connection.execute(CLAIM_KEYS, (_json(told),), prepare=True)
    if taken.rowcount == len(uses):
        return set()
    return uses.keys() - {record_id for (record_id,) in taken}


def find_by_key(connection: Connection, use: KeyUse) -> dict[int, Record]:
    """Return what was stored under this key, by position; raise `KeyReused` if that was for another input.

    Keys of earlier times, and of times when nobody was asked who they are, belong to nobody. Each of them answers
    whoever sends the same input under it, so that no retry is recorded twice, and is in nobody's way with another.
    """
    (found,) = find_by_keys(connection, [use])
    if isinstance(found, KeyReused):
        raise found
    return found


def find_by_keys(connection: Connection, uses: Sequence[KeyUse]) -> list[dict[int, Record] | KeyReused]:
    """Return for each of these keys what `find_by_key` returns or raises, in few turns to the server and back."""
    if not uses:
        return []
    kept = _kept_under(connection, uses, [use.fingerprint for use in uses])
    older = {n: use for n, use in enumerate(uses) if kept[n].others and use.earlier is not None}
    if older:
        digests = [use.earlier() for use in older.values() if use.earlier is not None]
        for n, earlier in zip(older, _kept_under(connection, list(older.values()), digests), strict=True):
            kept[n] = KeptKeys({**earlier.same, **kept[n].same}, earlier.others)
    records = find(connection, [record_id for one in kept for record_id in one.same.values()])
    return [_found(use, one, records) for use, one in zip(uses, kept, strict=True)]


@dataclass(slots=True)
class KeptKeys:
    """What is kept under the key of one request."""

    same: dict[int, UUID] = field(default_factory=dict)
    """Records of requests with the same digest, by position."""

    others: list[tuple[str, int]] = field(default_factory=list)
    """Keys and positions of other requests."""


def _found(use: KeyUse, kept: KeptKeys, records: Mapping[UUID, Record]) -> dict[int, Record] | KeyReused:
    if any(key == use.stored and position not in kept.same for key, position in kept.others):
        return KeyReused(f"the Idempotency-Key {use.key!r} was used before with another input; use a new key")
    return {position: records[record_id] for position, record_id in kept.same.items() if record_id in records}


def _kept_under(connection: Connection, uses: Sequence[KeyUse], digests: Sequence[bytes]) -> list[KeptKeys]:
    """What is kept under each of these keys, where the request has this digest."""
    asked = [(n, key, digest) for n, digest in enumerate(digests) for key in {uses[n].key, uses[n].stored}]
    rows = connection.execute(FIND_KEYS, [list(column) for column in zip(*asked, strict=True)]).fetchall()
    rows.sort(key=lambda row: bool(row[1] == uses[row[0]].stored))  # its own, where there are two, is the last word
    kept = [KeptKeys() for _ in uses]
    for n, key, position, record_id, same_input in rows:
        if same_input:
            kept[n].same[position] = record_id
        else:
            kept[n].others.append((key, position))
    return kept


def find(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Record]:
    """Return the records with these ids, as far as they exist."""
    if not ids:
        return {}
    with connection.cursor(row_factory=class_row(Record)) as cursor:
        cursor.execute(
            f"select {RECORD_COLUMNS}, reply from records left join payloads on record_id = id where id = any(%s)",
            (list(ids),),
        )
        return {record.id: record for record in cursor}


def find_one(connection: Connection, record_id: UUID) -> Record:
    found = find(connection, [record_id])
    if record_id not in found:
        raise RecordNotFound(f"there is no prediction with the id {record_id}")
    return found[record_id]


def find_input(connection: Connection, record_id: UUID) -> Any:
    """Return the input of a prediction, or None when its time was up."""
    row = connection.execute("select input from payloads where record_id = %s", (record_id,)).fetchone()
    return None if row is None else row[0]


def find_output(connection: Connection, record_id: UUID) -> Any:
    """Return what a request brought of a model that runs elsewhere, or None when its time was up."""
    row = connection.execute("select output from payloads where record_id = %s", (record_id,)).fetchone()
    return None if row is None else row[0]


def add_outcome(
    connection: Connection,
    record_id: UUID,
    *,
    label: Answer,
    source: str,
    author: str | None,
    text: str | None = None,
    codes: Sequence[str] = (),
) -> Outcome:
    """Append the truth about an existing record. Earlier ones stay; `demur.traffic.outcomes` says which one counts.
    A `text` in the place of the reply is left out where the reply itself is no longer kept.

    Whoever waits for the record is told when the transaction has committed.
    """
    row = connection.execute(
        "insert into outcomes (record_id, label, source, author, codes) values (%s, %s, %s, %s, %s)"
        " returning id, created_at",
        (record_id, _json(label), source, author, list(codes) or None),
    ).fetchone()
    assert row is not None
    kept = text is not None and corrected_replies.keep(connection, {row[0]: (record_id, text)})
    tell_waiting(connection, record_id)
    return Outcome(
        label=label,
        source=source,
        author=author,
        created_at=row[1],
        text=text if kept else None,
        codes=list(codes) or None,
    )


def tell_waiting(connection: Connection, record_id: UUID) -> None:
    """Tell whoever waits for news about a record, when the transaction has committed, that there is some."""
    connection.execute("select pg_notify(%s, %s)", (OUTCOMES_CHANNEL, str(record_id)))


def outcomes_of(connection: Connection, record_id: UUID) -> list[Outcome]:
    """All outcomes of a record, oldest first."""
    with connection.cursor(row_factory=class_row(Outcome)) as cursor:
        cursor.execute(
            f"select {corrected_replies.OUTCOME} where o.record_id = %s order by o.id",
            (record_id,),
        )
        return cursor.fetchall()


def _row(record: Record) -> tuple[Any, ...]:
    return (
        record.id,
        record.created_at,
        record.model,
        record.artifact,
        record.group,
        _json_or_null(record.prediction),
        record.top_labels,
        _numbers(record.top_probabilities),
        None if record.label_confidence is None else _numbers(record.label_confidence),
        record.prediction_set,
        _json(record.scores),
        *_numbers([record.confidence]),
        record.action,
        record.reason,
        *_numbers([record.label_probability]),
        _json(record.timings),
        _json_or_null(record.steps),
        _json_or_null(record.cost),
        record.cluster,
    )


def _payload_row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.record.id,
        _json(entry.input),
        entry.input_expires_at,
        _json_or_null(entry.record.reply),
        _json_or_null(entry.output),
    )


def _shadow_row(record_id: UUID, shadow: ShadowDecision) -> tuple[Any, ...]:
    return (
        record_id,
        shadow.artifact,
        _json_or_null(shadow.prediction),
        shadow.confidence,
        shadow.action,
        shadow.reason,
        shadow.prediction_set,
    )


def _numbers(values: Sequence[float | None]) -> list[float | None]:
    """What JSON would make of them: it knows neither NaN nor the infinite."""
    return [None if value is None or not isfinite(value) else value for value in values]


def _json_or_null(value: Any) -> str | None:
    return None if value is None else _json(value)


def _json(value: Any) -> str:
    return json_bytes(value).decode()


def json_bytes(value: Any) -> bytes:
    """The value as the log has it."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)
