"""Writing predictions that were decided together: PostgreSQL's own binary form of rows, by COPY."""

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, repeat
from operator import is_
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.abc import PQGen
from psycopg.generators import copy_to, fetch, send
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Wait

from demur.traffic import log
from demur.traffic.columns import RecordColumns
from demur.traffic.database import Connection
from demur.traffic.record import Answer

Field = bytes
"""One value as COPY takes it: its length as four bytes, then its bytes."""

Column = Field | NDArray[np.uint8] | list[Field]
"""One field that all rows share, or [n, bytes] of fields that are equally long, or [n] fields."""

RECORD_COLUMNS = (
    "id, created_at, model, artifact, confidence, label_probability, top_probabilities, label_confidence,"
    ' "group", cluster, cost, prediction, top_labels, prediction_set, action, reason, scores, timings'
)
"""The columns in the order of `record_columns`: those that are equally long in all rows come first."""

PAYLOAD_COLUMNS = "record_id, expires_at, reply, output, input"

COPY = (
    f"copy records ({RECORD_COLUMNS}) from stdin (format binary);"
    f"copy payloads ({PAYLOAD_COLUMNS}) from stdin (format binary)"
).encode()
"""One query of two statements: where no transaction is open, PostgreSQL makes one of it."""

HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TAIL = b"\xff\xff"
NULL: Field = b"\xff\xff\xff\xff"
FEW_LABELS = 8
"""Labels of a list that is kept as bytes: few come again and again, and sets of hundreds would take much memory."""

FEWEST = 10
"""Rows for which COPY is cheaper than JSON: it takes two more turns to the server and back."""

PIECE = 2**20
"""Bytes that are handed to PostgreSQL's library at a time."""

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""From when on PostgreSQL counts the microseconds of a time."""

MICROSECOND = timedelta(microseconds=1)
FLOAT8, TEXT = 701, 25
"""What PostgreSQL calls the types of an array's elements."""

_length = struct.Struct(">i").pack
_array = struct.Struct(">5i").pack
_time = struct.Struct(">iq").pack
_float = struct.Struct(">id").pack


def append_columns(connection: Connection, blocks: Sequence[RecordColumns]) -> None:
    """Write the records of these blocks, and their inputs and replies, all or nothing, the cheaper way: by COPY, and a
    few rows by `log.append`. Both leave the same in the log.

    The rows are in the transaction that is open; on a connection that commits by itself they are on disk on return.
    Raises what psycopg raises: `UniqueViolation` where a record may be in the log already, for COPY cannot leave one
    out, and `DataError`, `IntegrityError`, `orjson.JSONEncodeError` or `UnicodeEncodeError` for a value that cannot be
    kept. Nothing is written then, and a connection that commits by itself can be used on. Whoever writes again what
    may be on disk already, or wants to know which row was refused, writes the entries by `log.append`.
    """
    encoding = connection.pgconn.parameter_status(b"client_encoding")
    if encoding != b"UTF8" or sum(map(len, blocks)) < FEWEST:  # COPY sends texts as they are, in UTF-8
        entries = [entry for block in blocks for entry in block.entries()]
        if entries:
            log.append(connection, entries)
    else:
        copy_columns(connection, blocks)


def copy_columns(connection: Connection, blocks: Sequence[RecordColumns]) -> None:
    """Write these blocks by COPY, however few rows they have: `append_columns`. The connection speaks UTF-8."""
    tables = [
        b"".join((HEAD, *(rows(len(block), columns(block)) for block in blocks if len(block)), TAIL))
        for columns in (record_columns, payload_columns)
    ]
    with connection.lock:
        begins = not connection.autocommit and connection.pgconn.transaction_status == TransactionStatus.IDLE
        connection.wait(_copied(connection.pgconn, b"begin;" + COPY if begins else COPY, tables))


def _copied(pgconn: PGconn, query: bytes, tables: Sequence[bytes]) -> PQGen[None]:
    """Send a query that reads these tables, in turn; raise what PostgreSQL says against it when it has ended."""
    pgconn.send_query(query)
    yield from send(pgconn)
    left = iter(tables)
    refused: PGresult | None = None
    while (result := (yield from fetch(pgconn))) is not None:
        if result.status == ExecStatus.COPY_IN:
            table = next(left)
            for at in range(0, len(table), PIECE):
                yield from copy_to(pgconn, table[at : at + PIECE], flush=len(table) > PIECE)
            while pgconn.put_copy_end() == 0:
                while not (yield Wait.W):
                    continue
            yield from send(pgconn)
        elif result.status != ExecStatus.COMMAND_OK:
            refused = refused or result
    if refused is not None:
        raise psycopg.errors.error_from_result(refused)


def record_columns(block: RecordColumns) -> list[Column]:
    """The fields of `RECORD_COLUMNS`."""
    timings = {"queued": block.queued, "model": [block.model_milliseconds] * len(block)}
    return [
        _ids(block),
        _moment(block.created_at),
        _text(block.model),
        _or_null(_text)(block.artifact),
        _floats(block.confidence),
        _floats(block.label_probabilities),
        _float_lists(block.top_probabilities),
        _each(_float_list, block.label_confidences),
        _each(_text, block.groups),
        _each(_text, block.clusters),
        _each(_jsonb, block.costs),
        _each(_answer, block.predictions),
        [_labels(labels) for labels in block.top_labels],
        [_labels(labels) for labels in block.prediction_sets],
        _each(_action, block.actions),
        _each(_text, block.reasons),
        _numbers(block.scores),
        _numbers(timings),
    ]


def payload_columns(block: RecordColumns) -> list[Column]:
    """The fields of `PAYLOAD_COLUMNS`."""
    return [
        _ids(block),
        _or_null(_moment)(block.input_expires_at),
        _each(_json, block.replies),
        _each(_json, block.outputs),
        [_json(value) for value in block.inputs],
    ]


def rows(n: int, columns: Sequence[Column]) -> bytes:
    """The [n] rows of these columns."""
    count = struct.pack(">h", len(columns))
    return b"".join(chain.from_iterable(zip(*put_together(n, [count, *columns]), strict=True)))


def put_together(n: int, columns: Sequence[Column]) -> list[list[bytes]]:
    """Fewer columns, [n] each: neighbours that are equally long in all rows become one."""
    parts: list[list[bytes]] = []
    fixed: list[bytes | NDArray[np.uint8]] = []
    for column in columns:
        if not isinstance(column, list):
            fixed.append(column)
            continue
        if fixed:
            parts.append(_side_by_side(n, fixed))
            fixed = []
        parts.append(column)
    if fixed:
        parts.append(_side_by_side(n, fixed))
    return parts


def _side_by_side(n: int, fields: Sequence[bytes | NDArray[np.uint8]]) -> list[bytes]:
    """[n] texts of bytes, each of which has all the fields of a row."""
    shared = [field for field in fields if isinstance(field, bytes)]
    if len(shared) == len(fields):
        return [b"".join(shared)] * n
    width = sum(len(field) if isinstance(field, bytes) else field.shape[1] for field in fields)
    rows = np.empty((n, width), np.uint8)
    at = 0
    for field in fields:
        values = np.frombuffer(field, np.uint8) if isinstance(field, bytes) else field
        rows[:, at : at + values.shape[-1]] = values
        at += values.shape[-1]
    told = rows.tobytes()
    return [told[at : at + width] for at in range(0, n * width, width)]


def _ids(block: RecordColumns) -> NDArray[np.uint8]:
    told = b"".join([b"\0\0\0\x10" + one.bytes for one in block.ids])
    return np.frombuffer(told, np.uint8).reshape(len(block), 20)


def _each(pack: Callable[[Any], Field], values: Sequence[Any]) -> Column:
    if all(map(is_, values, repeat(None))):
        return NULL
    return [NULL if value is None else pack(value) for value in values]


def _or_null(pack: Callable[[Any], Field]) -> Callable[[Any], Field]:
    return lambda value: NULL if value is None else pack(value)


def _text(value: str) -> Field:
    told = value.encode()
    return _length(len(told)) + told


_action = lru_cache(16)(_text)


def _moment(value: datetime) -> Field:
    return _time(8, (value - EPOCH) // MICROSECOND)


def _json(value: Any) -> Field:
    told = log.json_bytes(value)
    return _length(len(told)) + told


def _jsonb(value: Any) -> Field:
    told = b"\x01" + log.json_bytes(value)  # the version of its binary form
    return _length(len(told)) + told


_label = lru_cache(4096)(_json)


def _answer(value: Answer) -> Field:
    return _label(value) if isinstance(value, str) else _json(value)


def _labels(values: Sequence[str]) -> Field:
    return _few_labels(tuple(values)) if len(values) <= FEW_LABELS else _texts(values)


def _texts(values: Sequence[str]) -> Field:
    return _array_of(TEXT, [_text(value) for value in values])


_few_labels = lru_cache(4096)(_texts)


def _array_of(kind: int, elements: Sequence[Field]) -> Field:
    if not elements:
        return struct.pack(">4i", 12, 0, 0, kind)
    told = _array(1, NULL in elements, kind, len(elements), 1) + b"".join(elements)
    return _length(len(told)) + told


def _finite(values: Sequence[Any]) -> NDArray[np.float64] | None:
    """The numbers as an array; None where one of them is missing, or no number that JSON knows."""
    numbers = np.array(values, np.float64)
    return numbers if np.isfinite(numbers).all() else None


def _number(value: float | None) -> Field:
    """A number; what JSON does not know, NaN and the infinite, is missing, as it is where a record is JSON."""
    return NULL if value is None or not np.isfinite(value) else _float(8, value)


def _floats(values: Sequence[float | None]) -> Column:
    numbers = _finite(values)
    if numbers is None:
        return [_number(value) for value in values]
    return _with_lengths(numbers[:, None])


def _float_list(values: Sequence[float | None]) -> Field:
    return _array_of(FLOAT8, [_number(value) for value in values])


def _float_lists(lists: Sequence[Sequence[float]]) -> Column:
    size = len(lists[0])
    if not size or any(len(values) != size for values in lists) or (numbers := _finite(lists)) is None:
        return [_float_list(values) for values in lists]
    head = _length(20 + 12 * size) + _array(1, 0, FLOAT8, size, 1)
    heads = np.broadcast_to(np.frombuffer(head, np.uint8), (len(lists), len(head)))
    return np.concatenate((heads, _with_lengths(numbers)), axis=1)


def _with_lengths(numbers: NDArray[np.float64]) -> NDArray[np.uint8]:
    """[n, 12 * k] bytes: each of [n, k] numbers behind its length."""
    told = np.empty(numbers.shape, [("length", ">i4"), ("number", ">f8")])
    told["length"], told["number"] = 8, numbers
    return told.view(np.uint8).reshape(len(numbers), -1)


def _numbers(columns: Mapping[str, Sequence[float | None]]) -> Column:
    """One JSON object of numbers for each row: each column is made to JSON at once, and then taken apart."""
    if not columns:
        return _json({})
    template = b",".join(log.json_bytes(name).replace(b"%", b"%%") + b":%b" for name in columns)
    values = zip(*(log.json_bytes(column)[1:-1].split(b",") for column in columns.values()), strict=True)
    told = [b"{" + template % row + b"}" for row in values]
    return [_length(len(one)) + one for one in told]
