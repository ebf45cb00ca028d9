"""The one write of the request path: a group of records and the queue places of some, in one transaction."""

import logging
from collections.abc import Callable, Sequence
from uuid import UUID

import orjson
import psycopg

from demur.review import queue
from demur.serve.contract.commit import BatchWriting, CommitOutcome, CommitResult, ToWrite, Unwritable, Writing
from demur.traffic import failed_requests, log
from demur.traffic.columns import RecordColumns
from demur.traffic.copying import append_columns
from demur.traffic.database import Connection, ConnectionLost, Database, one_line
from demur.traffic.record import Entry, FailedRequest, KeyUse

logger = logging.getLogger("demur.journal")

REFUSALS = (psycopg.DataError, psycopg.IntegrityError, orjson.JSONEncodeError, UnicodeEncodeError)
"""What is wrong with a record, and not with the database."""


def commit(database: Database, items: Sequence[ToWrite]) -> list[list[CommitOutcome]]:
    """Write entries with their cases, and columns of entries. Return for each item, for each of its rows, what is on
    disk now or why nothing is.

    Raises `DatabaseUnavailable` for all of them together. A record that is refused takes none of its neighbours with
    it, and costs them little: it is looked for by halves. Committing again what may be on disk already changes nothing.
    """
    try:
        return _commit_together(database, items)
    except REFUSALS:
        if len(items) > 1:
            half = len(items) // 2
            return commit(database, items[:half]) + commit(database, items[half:])
        (item,) = items
        if isinstance(item, BatchWriting):
            return [[done for (done,) in commit(database, item.writings())]]
        return [[_commit_alone(database, item)]]


def _commit_together(database: Database, items: Sequence[ToWrite]) -> list[list[CommitOutcome]]:
    try:
        return _commit(database, items, log.append, append_columns)
    except (ConnectionLost, psycopg.errors.UniqueViolation):  # it may be on disk; then doing it again changes nothing
        return _commit(database, items, log.append, _append_entries)


def _append_entries(connection: Connection, blocks: Sequence[RecordColumns]) -> None:
    """Write columns by the statement that leaves out what is in the log already; COPY cannot."""
    if blocks:
        log.append(connection, [entry for block in blocks for entry in block.entries()])


def _commit_alone(database: Database, writing: Writing) -> CommitOutcome:
    try:
        return _commit(database, [writing], log.append_plainly)[0][0]
    except REFUSALS as error:
        why = _without_values(error)
        logger.error("a record was refused: %s", why)
        return Unwritable(f"the record could not be written: {why}")


def _without_values(error: Exception) -> str:
    """What is wrong, without what PostgreSQL shows of the row: inputs belong into no log."""
    told = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join(told.split()) if told else one_line(error)


def _commit(
    database: Database,
    items: Sequence[ToWrite],
    append: Callable[[Connection, Sequence[Entry]], None],
    append_blocks: Callable[[Connection, Sequence[RecordColumns]], None] = _append_entries,
) -> list[list[CommitOutcome]]:
    writings = [item for item in items if isinstance(item, Writing)]
    batches = [item for item in items if isinstance(item, BatchWriting)]
    blocks = [batch.columns for batch in batches]
    late: set[UUID] = set()
    if not writings and not any(batch.cases for batch in batches):
        with database.by_themselves() as connection:  # all of it is one statement
            append_blocks(connection, blocks)
    elif append is log.append and not batches and not any(_needs_more(writing) for writing in writings):
        with database.by_themselves() as connection:
            log.append(connection, [writing.entry for writing in writings])
    else:
        with database.transaction() as connection:
            append_blocks(connection, blocks)
            late = log.claim_keys(connection, [writing.entry for writing in writings])
            kept = [writing for writing in writings if writing.entry.record.id not in late] if late else writings
            if kept:
                append(connection, [writing.entry for writing in kept])
            cases = [case for batch in batches for case in batch.cases.values()]
            cases += [writing.case for writing in kept if writing.case]
            if cases:
                queue.enqueue(connection, cases)
    return [_outcomes(database, item, late) for item in items]


def _needs_more(writing: Writing) -> bool:
    """Whether it takes more than one statement."""
    return bool(writing.case or writing.entry.key or writing.entry.shadow)


def _outcomes(database: Database, item: ToWrite, late: set[UUID]) -> list[CommitOutcome]:
    if isinstance(item, BatchWriting):
        return [CommitResult(columns=item.columns, row=row) for row in range(len(item))]
    record = item.entry.record
    return [_earlier(database, item.entry) if record.id in late else CommitResult(record=record)]


def note_failures(database: Database, failures: Sequence[FailedRequest]) -> list[None]:
    """Write requests that got an error because a model could not be asked. Raises `DatabaseUnavailable`."""
    try:
        _note_failures(database, failures)
    except ConnectionLost:  # it may have been committed; then doing it again changes nothing
        _note_failures(database, failures)
    return [None] * len(failures)


def _note_failures(database: Database, failures: Sequence[FailedRequest]) -> None:
    with database.transaction() as connection:
        failed_requests.append(connection, failures)


def replays(database: Database, use: KeyUse) -> dict[int, CommitResult]:
    """What was stored under this key, by position; raises `KeyReused` if that was for another input."""
    with database.transaction() as connection:
        found = log.find_by_key(connection, use)
    return {position: CommitResult(record=record, replayed=True) for position, record in found.items()}


def _earlier(database: Database, entry: Entry) -> CommitOutcome:
    assert entry.key is not None
    try:
        done = replays(database, entry.key)[entry.key.position]
    except log.KeyReused as error:
        return error
    if done.record.id == entry.record.id:  # the commit was made, and only word of it was lost
        done.replayed = False
    return done
