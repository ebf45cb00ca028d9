"""The one write of the request path: a group of records and the queue places of some, in one transaction."""

import logging
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import orjson
import psycopg

from demur.review import queue
from demur.review.item import NewCase
from demur.serve.contract.commit import BatchWriting, CommitOutcome, CommitResult, ToWrite, Unwritable, Writing
from demur.traffic import failed_requests, log
from demur.traffic.columns import RecordColumns
from demur.traffic.copying import append_columns
from demur.traffic.database import Connection, ConnectionLost, Database, one_line
from demur.traffic.log import KeyReused
from demur.traffic.record import Entry, FailedRequest, KeyUse, Record

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
    keys = {record_id: use for item in items for record_id, use in item.keys.items()}
    cases = [case for item in items for case in item.new_cases()]
    entries = [item.entry for item in items if isinstance(item, Writing)]
    blocks = [item.columns for item in items if isinstance(item, BatchWriting)]
    earlier: dict[UUID, CommitOutcome] = {}
    if not keys and not cases and not entries:
        with database.by_themselves() as connection:  # all of it is one statement
            append_blocks(connection, blocks)
    elif not keys and not cases and not blocks and append is log.append and not any(entry.shadow for entry in entries):
        with database.by_themselves() as connection:
            log.append(connection, entries)
    else:
        with database.transaction() as connection:
            late = log.claim_keys(connection, keys)
            if late:
                blocks, entries, cases = _without(late, blocks, entries, cases)
            append_blocks(connection, blocks)
            if entries:
                append(connection, entries)
            if cases:
                queue.enqueue(connection, cases)
            if late:
                earlier = _earlier_answers(connection, {record_id: keys[record_id] for record_id in late})
    return [_outcomes(item, earlier) for item in items]


def _without(
    late: set[UUID], blocks: Sequence[RecordColumns], entries: Sequence[Entry], cases: Sequence[NewCase]
) -> tuple[list[RecordColumns], list[Entry], list[NewCase]]:
    """What is left to write without some records. Columns that lose a row become entries."""
    whole = [block for block in blocks if late.isdisjoint(block.ids)]
    apart = [entry for block in blocks if not late.isdisjoint(block.ids) for entry in block.entries()]
    return (
        whole,
        [entry for entry in (*apart, *entries) if entry.record.id not in late],
        [case for case in cases if case.record_id not in late],
    )


def _outcomes(item: ToWrite, earlier: Mapping[UUID, CommitOutcome]) -> list[CommitOutcome]:
    if isinstance(item, BatchWriting):
        columns = item.columns
        return [
            earlier.get(record_id) or CommitResult(columns=columns, row=row)
            for row, record_id in enumerate(columns.ids)
        ]
    record = item.entry.record
    return [earlier.get(record.id) or CommitResult(record=record)]


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


def replays(database: Database, uses: Sequence[KeyUse]) -> list[dict[int, CommitResult] | KeyReused]:
    """What was stored under each of these keys, by position; `KeyReused` where that was for another input. Raises
    `DatabaseUnavailable`."""
    with database.by_themselves() as connection:  # most often it is one statement
        found = log.find_by_keys(connection, uses)
    return [
        one
        if isinstance(one, KeyReused)
        else {at: CommitResult(record=record, replayed=True) for at, record in one.items()}
        for one in found
    ]


def _earlier_answers(connection: Connection, late: Mapping[UUID, KeyUse]) -> dict[UUID, CommitOutcome]:
    """What was answered under the keys of records that came too late for theirs, by their ids. A batch has one key for
    all its rows, and that is looked up once."""
    requests = {(use.stored, use.fingerprint): use for use in late.values()}
    found = dict(zip(requests, log.find_by_keys(connection, list(requests.values())), strict=True))
    return {
        record_id: _earlier_answer(record_id, use, found[use.stored, use.fingerprint])
        for record_id, use in late.items()
    }


def _earlier_answer(record_id: UUID, use: KeyUse, before: Mapping[int, Record] | KeyReused) -> CommitOutcome:
    if isinstance(before, KeyReused):
        return before
    record = before.get(use.position)
    if record is None:
        return Unwritable(f"what was answered under the Idempotency-Key {use.key!r} was erased just now; send it again")
    # the record itself: the commit was made, and only word of it was lost
    return CommitResult(record=record, replayed=record.id != record_id)
