"""The one write of the request path: a group of records and the queue places of some, in one transaction."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
import psycopg

from audit.schema import AUDIT_MIGRATIONS
from review import queue
from review.item import NewCase
from traffic import log
from traffic.database import TRAFFIC_MIGRATIONS, Connection, Database, migrate, one_line
from traffic.record import Entry, KeyUse, Record

MIGRATIONS = [*TRAFFIC_MIGRATIONS, *queue.REVIEW_MIGRATIONS, *AUDIT_MIGRATIONS]

logger = logging.getLogger("demur.journal")


class Unwritable(ValueError):
    """This one record cannot be written as JSON, or PostgreSQL refused it. It was not acknowledged; the message says
    why."""


@dataclass(frozen=True, slots=True)
class Writing:
    """What is written for one prediction, in both rooms of the memory."""

    entry: Entry
    case: NewCase | None = None
    """None where nobody is asked about it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What is on disk for an entry."""

    record: Record
    replayed: bool
    """True if this key had been used for this input before: `record` is the one from then, and nothing was written."""


def open_database(dsn: str) -> Database:
    """Connect, and bring the schema of both rooms of the memory up to date."""
    database = Database(dsn)
    try:
        migrate(database, MIGRATIONS)
    except BaseException:
        database.close()
        raise
    return database


def commit(database: Database, writings: Sequence[Writing]) -> list[Committed | Exception]:
    """Write the entries and their cases, and return, for each, what is on disk now or why nothing is.

    Raises `DatabaseUnavailable` for all of them together. A record that is refused takes none of its neighbours with
    it.
    """
    entries = [writing.entry for writing in writings]
    try:
        with database.transaction() as connection:
            late = log.claim_keys(connection, entries)
            _write(connection, [writing for writing in writings if writing.entry.record.id not in late])
    except (psycopg.DataError, psycopg.IntegrityError, orjson.JSONEncodeError) as error:
        if len(entries) > 1:
            return [commit(database, [writing])[0] for writing in writings]
        logger.exception("a record was refused")
        return [Unwritable(f"the record could not be written: {one_line(error)}")]
    return [
        _earlier(database, entry) if entry.record.id in late else Committed(record=entry.record, replayed=False)
        for entry in entries
    ]


def replays(database: Database, use: KeyUse) -> dict[int, Committed]:
    """What was stored under this key, by position; raises `KeyReused` if that was for another input."""
    with database.transaction() as connection:
        found = log.find_by_key(connection, use.key, use.fingerprint)
    return {position: Committed(record=record, replayed=True) for position, record in found.items()}


def _write(connection: Connection, writings: Sequence[Writing]) -> None:
    with connection.pipeline():
        log.append(connection, [writing.entry for writing in writings])
        if cases := [writing.case for writing in writings if writing.case]:
            queue.enqueue(connection, cases)


def _earlier(database: Database, entry: Entry) -> Committed | Exception:
    assert entry.key is not None
    try:
        return replays(database, entry.key)[entry.key.position]
    except log.KeyReused as error:
        return error
