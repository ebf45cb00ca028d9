"""The costs of putting records on disk, way by way: `python -m benchmarks.writing`.

Groups of predictions go into a PostgreSQL of our own, durably, each way into tables of its own, in turn; microseconds
of processor time for each row, of PostgreSQL's process and of the thread that writes, lower quartiles of the rounds,
and bytes of the write-ahead log. `--indexes` writes by COPY into tables that lack one index, or check, each. `--thin`
compares what readers pay: rows as they are, and thin rows behind views that show them as they are today.
"""

import argparse
import random
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from rich.console import Console
from rich.table import Table
from uuid_utils.compat import uuid7

from benchmarks.processor_time import spent_by
from demur.audit.ledger.export import FROM
from demur.audit.ledger.from_database import read_ledger
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic import copying, log
from demur.traffic.columns import RecordColumns
from demur.traffic.database import Connection
from demur.traffic.latest import latest_decisions
from demur.traffic.outcomes import Precedence

LABELS = [str(digit) for digit in range(10)]
RULE = "score {:.3g} is at most 0.93, the limit"
THIN = """
create table thin (
    id uuid primary key, created_at timestamptz not null, expires_at timestamptz, model int2, artifact int2,
    prediction int2, action int2, reason int2, confidence float8, label_probability float8, queued float8,
    model_milliseconds float8, label_confidence float8[], "group" text, cluster text, cost jsonb, reply json,
    output json, top_labels int2[], top_probabilities float8[], prediction_set int2[], scores float8[],
    reason_numbers float8[], input bytea);
create index on thin (model, created_at);
create index on thin (expires_at) where expires_at is not null;
"""
VIEWS = """
create table names (model text, artifact text, action text, labels text[], scores text[], template text);
insert into names values ('digits', 'digits-20260101-abcdef', 'answer', %s, %s, 'score %%s is at most 0.93, the limit');
alter table records rename to wide_records;
alter table payloads rename to wide_payloads;
create view records as select
    t.id, t.created_at, n.model, n.artifact, t."group", to_json(n.labels[t.prediction + 1]) as prediction,
    array(select n.labels[one + 1] from unnest(t.top_labels) with ordinality told (one, place) order by place)
        as top_labels, t.top_probabilities, t.label_confidence,
    array(select n.labels[one + 1] from unnest(t.prediction_set) with ordinality told (one, place) order by place)
        as prediction_set,
    (select json_object_agg(name, value) from unnest(n.scores, t.scores) told (name, value)) as scores,
    t.confidence, n.action, format(n.template, t.reason_numbers[1]) as reason, t.label_probability,
    json_build_object('queued', t.queued, 'model', t.model_milliseconds) as timings, null::json as steps, t.cost,
    t.cluster from thin t, names n;
create view payloads as
    select id as record_id, convert_from(input, 'UTF8')::json as input, expires_at, reply, output from thin;
"""
"""Thin rows in the shape that audits, exports and pages ask for. There is one model, so `names` has one row."""

TYPES = {
    "uuid": "id record_id", "timestamptz": "created_at expires_at", "float8": "confidence label_probability",
    "float8[]": "top_probabilities label_confidence", "jsonb": "cost", "text[]": "top_labels prediction_set",
    "json": "prediction scores timings reply output input",
}  # fmt: skip
"""Columns that are no text."""


@dataclass
class Way:
    """One way of writing a block, into tables that `schema` changes first."""

    name: str
    write: Callable[[Connection, Any], object]
    prepare: Callable[[RecordColumns], Any] = lambda block: block
    """In what form the block comes to it; making it so is not counted."""

    schema: str = ""


def made_up(n: int, rng: random.Random) -> RecordColumns:
    """Answers about pictures of 8 x 8 pixels, as the quickstart's model gives them."""
    top = [[1 - share, share / 2, share / 3] for share in (rng.random() / 10 for _ in range(n))]
    return RecordColumns(
        model="digits", artifact="digits-20260101-abcdef", created_at=datetime.now(UTC),
        ids=[uuid7() for _ in range(n)], groups=[None] * n, clusters=[None] * n,
        predictions=[rng.choice(LABELS) for _ in range(n)], top_labels=[rng.sample(LABELS, 3) for _ in range(n)],
        top_probabilities=top, label_confidences=[None] * n, prediction_sets=[[rng.choice(LABELS)] for _ in range(n)],
        scores={"softmax_response": [1 - row[0] for row in top], "entropy": [3 * row[1] for row in top],
                "margin": [1.7 * row[2] for row in top]},
        confidence=[row[0] for row in top], actions=["answer"] * n, reasons=[RULE.format(1 - row[0]) for row in top],
        label_probabilities=[0.05] * n, queued=[3 * rng.random() for _ in range(n)], model_milliseconds=4.125,
        costs=[None] * n, replies=[None] * n, outputs=[None] * n,
        inputs=[[[float(rng.randrange(17)) for _ in range(8)] for _ in range(8)] for _ in range(n)],
        input_expires_at=datetime.now(UTC) + timedelta(days=90), keys=[None] * n,
    )  # fmt: skip


def packed(block: RecordColumns) -> tuple[bytes, bytes]:
    """Both tables, as COPY takes them."""
    first, second = (
        copying.HEAD + copying.rows(len(block), columns) + copying.TAIL
        for columns in (copying.record_columns(block), copying.payload_columns(block))
    )
    return first, second


def by_two_copies(connection: Connection, block: RecordColumns) -> None:
    """COPY as psycopg has it, twice, in a transaction."""
    with connection.transaction(), connection.cursor() as cursor:
        for query, table in zip(copying.COPY.decode().split(";"), packed(block), strict=True):
            with cursor.copy(query) as copy:
                copy.write(table)


def by_text(connection: Connection, block: RecordColumns) -> None:
    """COPY of texts, which psycopg makes of Python's values."""
    entries = block.entries()
    with connection.transaction(), connection.cursor() as cursor:
        for table, columns, rows in (
            ("records", log.RECORD_COLUMNS, [log._row(entry.record) for entry in entries]),
            ("payloads", log.PAYLOAD_COLUMNS, [log._payload_row(entry) for entry in entries]),
        ):
            with cursor.copy(f"copy {table} ({columns}) from stdin") as copy:
                for row in rows:
                    copy.write_row(row)


class ByArrays:
    """One statement with two arrays of rows, in PostgreSQL's binary form: no second turn, and ON CONFLICT."""

    def __init__(self, otherwise: str) -> None:
        tables = (("records", copying.RECORD_COLUMNS), ("payloads", copying.PAYLOAD_COLUMNS))
        first, second = (
            f"insert into {table} ({columns}) select {columns} from unnest(${at}::{table}_row[]) {otherwise}"
            for at, (table, columns) in enumerate(tables, 1)
        )
        self._statement = f"with kept as ({first}) {second}".encode()
        kinds = {name: kind for kind, names in TYPES.items() for name in names.split()}
        self._kinds = [[kinds.get(one.strip(' "'), "text") for one in columns.split(",")] for _, columns in tables]
        self.schema = ";".join(
            f"create type {table}_row as ("
            + ", ".join(f"{name} {kind}" for name, kind in zip(columns.split(","), these, strict=True))
            + ")"
            for (table, columns), these in zip(tables, self._kinds, strict=True)
        )
        self._oids: dict[str, int] = {}

    def write(self, connection: Connection, block: RecordColumns) -> None:
        if not self._oids:
            kinds = {*self._kinds[0], *self._kinds[1], "records_row", "payloads_row", "records_row[]", "payloads_row[]"}
            found = connection.execute("select k, k::regtype::oid::bigint from unnest(%s::text[]) k", (list(kinds),))
            self._oids = dict(found.fetchall())
            arrays = [self._oids["records_row[]"], self._oids["payloads_row[]"]]
            connection.pgconn.prepare(b"by_arrays", self._statement, arrays)
        values = [
            self._array(len(block), columns, kinds, kind)
            for columns, kinds, kind in zip(
                (copying.record_columns(block), copying.payload_columns(block)),
                self._kinds,
                ("records_row", "payloads_row"),
                strict=True,
            )
        ]
        connection.pgconn.send_query_prepared(b"by_arrays", values, [1, 1])
        for result in connection.wait(execute(connection.pgconn)):
            assert result.status == ExecStatus.COMMAND_OK, result.error_message

    def _array(self, n: int, columns: Sequence[copying.Column], kinds: Sequence[str], kind: str) -> bytes:
        fields: list[copying.Column] = [struct.pack(">i", len(columns))]
        for column, of in zip(columns, kinds, strict=True):
            fields += [struct.pack(">I", self._oids[of]), column]
        rows = [b"".join(row) for row in zip(*copying.put_together(n, fields), strict=True)]
        elements = [struct.pack(">i", len(row)) + row for row in rows]
        return struct.pack(">iiIii", 1, 0, self._oids[kind], n, 1) + b"".join(elements)


def fixed(values: Any, kind: str, of: int | None = None) -> Any:
    """[n, bytes]: numbers, or arrays of as many each, of an element type that PostgreSQL calls `of`."""
    numbers = np.asarray(values)
    fields = np.empty(numbers.shape, [("length", ">i4"), ("value", kind)])
    fields["length"], fields["value"] = np.dtype(kind).itemsize, numbers
    told: Any = fields.view(np.uint8).reshape(len(numbers), -1)
    if of is None:
        return told
    head = struct.pack(">6i", 20 + told.shape[1], 1, 0, of, numbers[0].size, 1)
    return np.concatenate((np.tile(np.frombuffer(head, np.uint8), (len(numbers), 1)), told), axis=1)


def thin_arrays(block: RecordColumns) -> dict[str, Any]:
    """What a host that speaks in arrays would have said: labels and reasons by their numbers."""
    return {
        "block": block,
        "predictions": np.array([LABELS.index(str(one)) for one in block.predictions]),
        "top": np.array([[LABELS.index(one) for one in row] for row in block.top_labels]),
        "probabilities": np.array(block.top_probabilities),
        "sets": np.array([[LABELS.index(one) for one in row] for row in block.prediction_sets]),
        "scores": np.array(list(block.scores.values())).T,
        "confidence": np.array(block.confidence),
        "label_probability": np.array(block.label_probabilities),
        "queued": np.array(block.queued),
    }


def thin(connection: Connection, told: dict[str, Any]) -> None:
    """One table, and in it numbers where today's has texts; one COPY, in the order of its columns."""
    block: RecordColumns = told["block"]
    expires = block.input_expires_at
    assert expires is not None
    one = struct.pack(">ih", 2, 1)
    columns: list[copying.Column] = [
        copying._ids(block), copying._moment(block.created_at), copying._moment(expires), one, one,
        fixed(told["predictions"], ">i2"), one, one, fixed(told["confidence"], ">f8"),
        fixed(told["label_probability"], ">f8"), fixed(told["queued"], ">f8"),
        struct.pack(">id", 8, block.model_milliseconds), *[copying.NULL] * 6, fixed(told["top"], ">i2", 21),
        fixed(told["probabilities"], ">f8", 701), fixed(told["sets"], ">i2", 21), fixed(told["scores"], ">f8", 701),
        fixed(told["scores"][:, :1], ">f8", 701), [copying._json(value) for value in block.inputs],
    ]  # fmt: skip
    table = copying.HEAD + copying.rows(len(block), columns) + copying.TAIL
    with connection.lock:
        connection.wait(copying._copied(connection.pgconn, b"copy thin from stdin (format binary)", [table]))


def nothing(connection: Connection, _block: RecordColumns) -> None:
    """A commit that the disk waits for, of a few bytes."""
    connection.execute("select pg_logical_emit_message(true, '', '')")


def ways() -> list[Way]:
    plain, careful = ByArrays(""), ByArrays("on conflict do nothing")
    return [
        Way("objects as JSON, one statement (`log.append`)", log.append, RecordColumns.entries),
        Way("COPY of texts in a transaction", by_text),
        Way("two arrays of rows, ON CONFLICT", careful.write, schema=careful.schema),
        Way("two arrays of rows", plain.write, schema=plain.schema),
        Way("COPY twice in a transaction, binary", by_two_copies),
        Way("COPY twice in one query (what demur does)", lambda to, block: copying.copy_columns(to, [block])),
        Way("thin rows, one COPY", thin, thin_arrays, THIN),
        Way("an empty commit", nothing),
        Way("making the rows, without a database", lambda _, block: packed(block)),
    ]


CHECKS = (
    "do $$ declare r record; begin for r in select conname from pg_constraint"
    " where conrelid = 'records'::regclass and contype = 'c' loop"
    " execute 'alter table records drop constraint ' || r.conname; end loop; end $$"
)
WITHOUT = {
    "all as it is": "",
    "records: no primary key": "alter table records drop constraint records_pkey cascade",
    "records: no index by model and time": "drop index records_by_time",
    "records: no checks": CHECKS,
    "payloads: no primary key": "alter table payloads drop constraint payloads_pkey cascade",
    "payloads: no index by expiry": "drop index payloads_by_expiry",
    "payloads: inputs are text": "alter table payloads alter input type text using input::text",
    "none of the four indexes": "drop index payloads_by_expiry, records_by_time;"
    " alter table records drop constraint records_pkey cascade;"
    " alter table payloads drop constraint payloads_pkey cascade",
}


def without() -> list[Way]:
    return [
        Way(name, lambda to, block: copying.copy_columns(to, [block]), schema=schema)
        for name, schema in WITHOUT.items()
    ]


def measured(way: Way, connection: Connection, rows: int, n: int, rng: random.Random) -> tuple[float, float, float]:
    """Microseconds of the server's process and of ours, and bytes of the log, for each row."""
    told = [way.prepare(made_up(n, rng)) for _ in range(max(1, rows // n))]
    count, pid = len(told) * n, connection.info.backend_pid
    here = connection.execute("select pg_current_wal_insert_lsn()::text").fetchone()
    theirs, ours = spent_by(pid), time.thread_time()
    for one in told:
        way.write(connection, one)
    ours, theirs = time.thread_time() - ours, spent_by(pid) - theirs
    written = connection.execute("select (pg_current_wal_insert_lsn() - %s::pg_lsn)::bigint", here).fetchone()
    assert written is not None
    return theirs / count * 1e6, ours / count * 1e6, written[0] / count


def compared(options: argparse.Namespace, address: str, tried: Sequence[Way]) -> Table:
    """What each way costs in this PostgreSQL, in schemas that are dropped afterwards."""
    rng = random.Random(0)  # noqa: S311 - made-up pictures
    found: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    open_to = []
    with psycopg.connect(address, autocommit=True) as connection:
        for at in range(len(tried)):
            connection.execute(f"create schema way_{at}".encode())
    for at, way in enumerate(tried):
        dsn = f"{address}&options=-csearch_path%3Dway_{at}"
        open_database(dsn).close()
        open_to.append(psycopg.connect(dsn, autocommit=True))
        if way.schema:
            open_to[-1].execute(way.schema.encode())
    for turn in range(options.rounds + 1):  # the first one warms up
        for n in options.group:
            for way, connection in zip(tried, open_to, strict=True):
                figures = measured(way, connection, options.rows, n, rng)
                if turn:
                    found.setdefault((way.name, n), []).append(figures)
    for at, connection in enumerate(open_to):
        connection.execute(f"drop schema way_{at} cascade".encode())
        connection.close()
    sizes = " / ".join(map(str, options.group))
    table = Table(f"rows a group: {sizes}", "PostgreSQL µs/row", "client µs/row", "WAL bytes/row")
    for way in tried:
        cells = [np.quantile(found[way.name, n], 0.25, axis=0) for n in options.group]
        table.add_row(
            way.name,
            *(" / ".join(f"{cell[part]:,.{digits}f}" for cell in cells) for part, digits in ((0, 1), (1, 1), (2, 0))),
        )
    return table


def read_by(address: str) -> dict[str, Callable[[], object]]:
    """What reads the log: each as demur does it."""
    until = datetime.now(UTC) + timedelta(hours=1)

    def audited() -> int:
        ledger = read_ledger(
            address, "digits", precedence=Precedence(()), since=until - timedelta(days=1), until=until, as_of=until
        )
        return len(ledger.ids)

    def exported() -> object:
        with psycopg.connect(address) as connection:
            what, rest = FROM["records"]
            kept = {"model": "'digits'", "late": "'-infinity'", "end": "'infinity'"}
            with connection.cursor().copy(f"copy ({what}{rest.format(**kept)}) to stdout (format binary)") as copy:
                return sum(len(piece) for piece in copy)

    def page() -> object:
        with psycopg.connect(address) as connection:
            return latest_decisions(connection, "digits", since=until - timedelta(days=1), most=500)

    return {"an audit reads its columns": audited, "an export reads records": exported, "a page reads 500": page}


def readers(options: argparse.Namespace, address: str) -> Table:
    """What the same records cost those who read them, wide and thin."""
    rng = random.Random(0)  # noqa: S311 - made-up pictures
    shapes = {"wide": Way("wide", lambda to, block: copying.copy_columns(to, [block])), "thin": ways()[6]}
    found: dict[tuple[str, str], list[float]] = {}
    sizes: dict[str, float] = {}
    read: dict[str, dict[str, Callable[[], object]]] = {}
    with psycopg.connect(address, autocommit=True) as connection:
        for shape, way in shapes.items():
            connection.execute(f"create schema {shape}".encode())
            dsn = f"{address}&options=-csearch_path%3D{shape}"
            open_database(dsn).close()
            with psycopg.connect(dsn, autocommit=True) as inside:
                if way.schema:
                    inside.execute(way.schema.encode())
                for _ in range(options.rows * options.rounds // 512):
                    way.write(inside, way.prepare(made_up(512, rng)))
                tables = ["thin"] if way.schema else ["records", "payloads"]
                total = sum(_bytes(inside, table) for table in tables)
                sizes[shape] = total / (options.rows * options.rounds // 512 * 512)
                if way.schema:
                    scores = list(made_up(1, rng).scores)
                    inside.execute(sql_of(VIEWS, LABELS, scores))
                inside.execute("vacuum analyze")
            read[shape] = read_by(dsn)
    for _ in range(5):
        for shape, works in read.items():
            for what, work in works.items():
                began = time.perf_counter()
                work()
                found.setdefault((what, shape), []).append(time.perf_counter() - began)
    table = Table(f"{options.rows * options.rounds:,} records", "wide", "thin behind views", "thin in wide")
    table.add_row("bytes on disk, each, with indexes", *(f"{sizes[one]:,.0f}" for one in shapes), _ratio(sizes))
    for what in read["wide"]:
        best = {shape: min(found[what, shape]) for shape in shapes}
        table.add_row(f"{what}, s", *(f"{best[shape]:.3f}" for shape in shapes), _ratio(best))
    return table


def sql_of(template: str, *arrays: Sequence[str]) -> bytes:
    """SQL with arrays of plain words in it."""
    return (template % tuple("'{" + ",".join(words) + "}'" for words in arrays)).encode()


def _bytes(connection: Connection, table: str) -> int:
    row = connection.execute("select pg_total_relation_size(%s::regclass)", (table,)).fetchone()
    assert row is not None
    return int(row[0])


def _ratio(values: Mapping[str, float]) -> str:
    return f"{values['thin'] / values['wide']:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", type=int, nargs="+", default=[64, 512], help="rows that are committed together")
    parser.add_argument("--rows", type=int, default=4096, help="for each way and size, in each round")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--indexes", action="store_true", help="what each index and check costs")
    parser.add_argument("--thin", action="store_true", help="what thin rows would cost those who read them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder, EmbeddedPostgres(Path(folder)) as server:
        if options.thin:
            table = readers(options, server.dsn)
        else:
            table = compared(options, server.dsn, without() if options.indexes else ways())
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
