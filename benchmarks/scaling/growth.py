"""What records by the million cost: an insert, an index, a look-up, a key and a deletion, and a Parquet segment too.

Each size is reached by COPY, as demur writes. At each, groups of 64 rows are committed and counted: with ids that grow
with time, as demur makes them, and with random ids, whose index has to be in memory as a whole.
"""

import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
from uuid_utils.compat import uuid7

from benchmarks.processor_time import spent_by
from benchmarks.scaling.measurement import Growth, KeyCosts, Mark
from benchmarks.writing import made_up
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic import copying, log
from demur.traffic.columns import RecordColumns
from demur.traffic.database import Connection
from demur.traffic.record import KeyUse

FILL = 1024
"""Rows that are committed together where only the size of the tables matters: what a gateway writes at most."""

GROUP = 64
BLOCKS = 16
"""Groups of made-up rows that come again and again with other ids."""

LOOKED_UP = 2000
KEYS = 102_400
DELETED = 20_000


def measure(sizes: Sequence[int], say: Callable[[str], object], *, rows: int = 4096, rounds: int = 7) -> Growth:
    """Write that many records, one size after another, into a PostgreSQL of our own."""
    rng = random.Random(0)  # noqa: S311 - made-up pictures
    blocks = {n: [made_up(n, rng) for _ in range(BLOCKS)] for n in (GROUP, FILL)}
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder, EmbeddedPostgres(Path(folder)) as server:
        disk = _disk(Path(folder))
        open_database(server.dsn).close()
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            marks = []
            for size in sorted(sizes):
                _fill(connection, blocks[FILL], size, say)
                marks.append(_mark(connection, blocks[GROUP], size, rows, rounds))
                say(f"{size:,} records: {marks[-1].insert:.1f} µs of PostgreSQL for a row")
            keys = _claim_keys(connection, KEYS)
            deleted, wal = _delete(connection)
            told = connection.execute("show shared_buffers").fetchone()
            assert told is not None
        segment, length = _segments(Path(folder), blocks[FILL])
    return Growth(
        shared_buffers=told[0], marks=marks, delete=deleted, delete_wal=wal, segment=segment, segment_bytes=length,
        disk=disk, keys=keys,
    )  # fmt: skip


def _write(connection: Connection, block: RecordColumns, new_id: Callable[[], UUID]) -> None:
    block.ids[:] = [new_id() for _ in block.ids]
    block.created_at = datetime.now(UTC)
    block.input_expires_at = block.created_at + timedelta(days=90)
    copying.copy_columns(connection, [block])


def _fill(connection: Connection, blocks: Sequence[RecordColumns], size: int, say: Callable[[str], object]) -> None:
    there = _count(connection)
    told = time.monotonic()
    while there < size:
        _write(connection, blocks[there // FILL % BLOCKS], uuid7)
        there += FILL
        if time.monotonic() - told > 15:
            told = time.monotonic()
            say(f"{there:,} of {size:,} records")
    connection.execute("vacuum analyze records, payloads")
    connection.execute("checkpoint")


def _count(connection: Connection) -> int:
    row = connection.execute("select count(*) from records").fetchone()
    assert row is not None
    return int(row[0])


def _wal(connection: Connection) -> float:
    row = connection.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return float(row[0])


def _mark(connection: Connection, blocks: Sequence[RecordColumns], size: int, rows: int, rounds: int) -> Mark:
    pid = connection.info.backend_pid
    found: dict[str, list[tuple[float, float, float]]] = {"": [], "random": []}
    makers: dict[str, Callable[[], UUID]] = {"": uuid7, "random": uuid4}
    for turn in range(rounds + 1):
        for way, new_id in makers.items():
            spent, wal, began = spent_by(pid), _wal(connection), time.perf_counter()
            for at in range(rows // GROUP):
                _write(connection, blocks[at % BLOCKS], new_id)
            count = rows // GROUP * GROUP
            told = spent_by(pid) - spent, time.perf_counter() - began, _wal(connection) - wal
            if turn:  # the first warms up
                found[way].append((told[0] / count * 1e6, told[1] / count, told[2] / count))
    (spent, seconds, wal), (random_spent, _, random_wal) = (
        np.quantile(found[way], 0.25, axis=0).tolist() for way in ("", "random")
    )
    sizes = connection.execute(
        "select i.indexrelid::regclass::text, pg_relation_size(i.indexrelid) from pg_index i"
        " where i.indrelid in ('records'::regclass, 'payloads'::regclass)"
    ).fetchall()
    heap = {table: _size(connection, table) for table in ("records", "payloads")}
    return Mark(
        records=size, insert=spent, seconds=seconds, wal=wal, random_insert=random_spent, random_wal=random_wal,
        look_up=_look_up(connection), tables=heap, indexes=dict(sizes),
    )  # fmt: skip


def _size(connection: Connection, table: str) -> int:
    row = connection.execute("select pg_table_size(%s::regclass)", (table,)).fetchone()
    assert row is not None
    return int(row[0])


def _look_up(connection: Connection) -> float:
    wanted = 50 * LOOKED_UP
    percent = min(100.0, 100 * wanted / _count(connection))
    sample = connection.execute("select id from records tablesample system (%s) limit %s", (percent, wanted))
    ids = [row[0] for row in sample]
    random.Random(0).shuffle(ids)  # noqa: S311 - an order for look-ups
    ids, pid = ids[:LOOKED_UP], connection.info.backend_pid
    spent = spent_by(pid)
    for one in ids:
        connection.execute("select * from records where id = %s", (one,))
    return (spent_by(pid) - spent) / len(ids) * 1e6


def _claim_keys(connection: Connection, keys: int) -> KeyCosts:
    """Write random keys, in groups, as the gateway does; each is a UUID of version 4 in text."""
    pid, wal, spent = connection.info.backend_pid, _wal(connection), 0.0
    for _ in range(keys // GROUP):
        uses = {uuid7(): KeyUse(key=str(uuid4()), position=0, fingerprint=os.urandom(32)) for _ in range(GROUP)}
        before = spent_by(pid)
        log.claim_keys(connection, uses)
        spent += spent_by(pid) - before
    written = keys // GROUP * GROUP
    wal = _wal(connection) - wal
    return KeyCosts(
        keys=written, insert=spent / written * 1e6, wal=wal / written,
        table=_size(connection, "idempotency_keys") / written,
        primary_key=_size(connection, "idempotency_keys_pkey") / written,
        by_record=_size(connection, "idempotency_keys_by_record") / written,
    )  # fmt: skip


def _delete(connection: Connection) -> tuple[float, float]:
    """Delete the oldest records with their inputs, in one statement each, and vacuum what is left of them."""
    pid, wal = connection.info.backend_pid, _wal(connection)
    spent = spent_by(pid)
    connection.execute("create temporary table old as select id from records order by created_at limit %s", (DELETED,))
    connection.execute("delete from payloads where record_id in (select id from old)")
    connection.execute("delete from records where id in (select id from old)")
    connection.execute("vacuum (index_cleanup on) records, payloads")
    return (spent_by(pid) - spent) / DELETED * 1e6, (_wal(connection) - wal) / DELETED


def _segments(folder: Path, blocks: Sequence[RecordColumns], segments: int = 8) -> tuple[float, float]:
    """Write columns as Parquet files of some 16,000 rows, compressed with zstd, each on disk before the next."""
    took, size, rows = [], 0, BLOCKS * FILL
    for number in range(segments):
        tables = []
        spent = time.process_time()
        for at in range(rows // FILL):
            block = blocks[at % BLOCKS]
            block.ids[:] = [uuid7() for _ in block.ids]
            tables.append(_arrow(block))
        path = folder / f"{number}.parquet"
        with path.open("wb") as file:
            pq.write_table(pa.concat_tables(tables), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        took.append((time.process_time() - spent) / rows * 1e6)
        size += path.stat().st_size
    return statistics.median(took), size / (segments * rows)


def _arrow(block: RecordColumns) -> pa.Table:
    n = len(block)
    columns: dict[str, Any] = {
        "id": pa.array([one.bytes for one in block.ids], pa.binary(16)),
        "created_at": pa.array([block.created_at] * n, pa.timestamp("us", "UTC")),
        "model": pa.array([block.model] * n), "artifact": pa.array([block.artifact] * n),
        "prediction": pa.array(block.predictions), "action": pa.array(block.actions),
        "reason": pa.array(block.reasons), "confidence": pa.array(block.confidence),
        "label_probability": pa.array(block.label_probabilities), "queued": pa.array(block.queued),
        "model_milliseconds": pa.array([block.model_milliseconds] * n),
        "top_labels": pa.array(block.top_labels), "top_probabilities": pa.array(block.top_probabilities),
        "prediction_set": pa.array(block.prediction_sets),
        "input": pa.array(block.inputs, pa.list_(pa.list_(pa.float32()))),
        **{f"score {name}": pa.array(values) for name, values in block.scores.items()},
    }  # fmt: skip
    return pa.table(columns)


def _disk(folder: Path, pieces: int = 32) -> float:
    piece, began = os.urandom(2**23), time.perf_counter()
    with (folder / "disk").open("wb") as file:
        for _ in range(pieces):
            file.write(piece)
            file.flush()
            os.fdatasync(file.fileno())
    (folder / "disk").unlink()
    return pieces * len(piece) / (time.perf_counter() - began)
