"""How long an audit of a million records takes, and of ten million: `make bench-audit`.

The records are made: a model that is too sure of itself (METHODS 9.9), of which 85% are answered, every held one is
labelled and one in fifty of the answered. They lie in a real PostgreSQL, or in Parquet as `demur export` writes it.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import psutil
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv
from rich.console import Console
from rich.table import Table

from demur.audit.ledger.export import DayFiles, export, let_count
from demur.audit.ledger.exported import ExportFolder, Run
from demur.audit.ledger.from_database import read_ledger
from demur.audit.ledger.from_parquet import parts_of
from demur.audit.report.audit import Audit, AuditSettings, audit
from demur.audit.report.in_parts import audit_in_parts, one_by_one
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic.database import Database

LABELS = np.array([f"label {n}" for n in range(10)])
GROUPS = np.array(["north", "south", "west"])
SCORES = ("softmax_response", "entropy", "margin", "mahalanobis")
ANSWERED = 0.85
SPOT_CHECK = 0.02
PATIENTS = 5
"""Records of one cluster, on average."""

START = datetime(2026, 10, 1, tzinfo=UTC)
SPAN = timedelta(days=30)
AT_ONCE = 100_000

END = START + SPAN + timedelta(days=2)
"""When everything is known."""

out = Console()


@dataclass(frozen=True, kw_only=True)
class Made:
    """Some records, and what became of them."""

    records: pa.Table
    outcomes: pa.Table
    cases: pa.Table


def made(n: int, *, seed: int = 0, all_known: bool = False) -> Iterator[Made]:
    """Yield `n` records in order of time, up to `AT_ONCE` at a time."""
    rng = np.random.default_rng(seed)
    for first in range(0, n, AT_ONCE):
        yield _part(rng, np.arange(first, min(first + AT_ONCE, n)), n, all_known)


def _part(rng: np.random.Generator, at: NDArray[np.int64], n: int, all_known: bool) -> Made:
    size = len(at)
    z = rng.normal(2.2, 1.6, size)
    confidence = _sigmoid(1.35 * z)
    right = rng.random(size) < _sigmoid(z)
    answered = z >= 2.2 + 1.6 * -1.0364  # the normal quantile of 1 - ANSWERED
    checked = ~answered | (rng.random(size) < SPOT_CHECK)
    predicted = rng.integers(0, 10, size)
    other = (predicted + rng.integers(1, 10, size)) % 10
    true = np.where(right, predicted, other)
    micros = (SPAN / timedelta(microseconds=1)) * at / n
    times = np.datetime64(START.replace(tzinfo=None), "us") + micros.astype("timedelta64[us]")
    ids = _uuid7(rng, times)
    artifacts = np.where(at < n // 2, "bench-0000000000000001", "bench-0000000000000002")
    scores = [1 - confidence, -np.log(confidence), rng.random(size), rng.gamma(2.0, 5.0, size)]
    wide = confidence < 0.9
    records = pa.table(
        {
            "id": ids,
            "created_at": _timestamps(times),
            "model": pa.array(["bench"] * size),
            "artifact": artifacts,
            "group": GROUPS[rng.integers(0, 3, size)],
            "cluster": pc.binary_join_element_wise("patient", pa.array(at // PATIENTS).cast(pa.string()), " "),
            "prediction": _json_texts(LABELS[predicted]),
            "top_labels": _lists(LABELS[predicted], LABELS[other], np.ones(size, bool)),
            "top_probabilities": _lists(confidence, (1 - confidence) / 2, np.ones(size, bool)),
            "prediction_set": _lists(LABELS[predicted], LABELS[other], wide),
            "scores": pa.StructArray.from_arrays([pa.array(column) for column in scores], SCORES),
            "confidence": confidence,
            "action": np.where(answered, "answer", "review"),
            "reason": pa.array(["made for a benchmark"] * size),
            "label_probability": np.where(answered, SPOT_CHECK, 1.0),
            "timings": pa.array(['{"queued":0.1,"model":1.5}'] * size),
        }
    )
    known = np.flatnonzero(np.ones(size, bool) if all_known else checked)
    known_at = times[known] + rng.integers(60, 86_400, len(known)).astype("timedelta64[s]")
    outcomes = pa.table(
        {
            "record_id": ids.take(known),
            "created_at": _timestamps(known_at),
            "label": _json_texts(LABELS[true[known]]),
            "source": np.where(checked[known], "review", "api"),
        }
    )
    cases = np.flatnonzero(checked)
    ended_at = _timestamps(times[cases] + np.timedelta64(1, "h"))
    asked = pa.table(
        {
            "id": ids.take(cases),
            "record_id": ids.take(cases),
            "model": pa.array(["bench"] * len(cases)),
            "status": pa.array(["resolved"] * len(cases)),
            "created_at": _timestamps(times[cases]),
            "kind": np.where(answered[cases], "spot_check", "held"),
            "ended_at": ended_at,
            "label": _json_texts(LABELS[true[cases]]),
            "resolution": pa.array(["agreed"] * len(cases)),
        }
    )
    return Made(records=records, outcomes=outcomes, cases=asked)


def fill(connection: "psycopg.Connection[tuple[Any, ...]]", parts: Iterator[Made]) -> None:
    """Write records with their outcomes and cases into the tables of a migrated database."""
    connection.execute("set session_replication_role = replica")  # no trigger and no foreign key looks at each row
    for part in parts:
        for table, rows in (("records", part.records), ("outcomes", part.outcomes), ("review_items", part.cases)):
            _copy(connection, table, rows)
    connection.execute("set session_replication_role = default")
    connection.commit()
    connection.autocommit = True
    connection.execute("vacuum analyze")


def write_export(url: str, parts: Iterator[Made]) -> None:
    """Write records and their outcomes as `demur export` does."""
    exported = ExportFolder(url, "bench")
    with DayFiles(exported, "records", None, END) as records, DayFiles(exported, "outcomes", None, END) as outcomes:
        first = 0
        for part in parts:
            top = pc.list_element(part.records["top_probabilities"], 0)
            asked = pc.if_else(pc.is_in(part.records["id"], part.cases["id"]), part.records["created_at"], None)
            rows = part.records.append_column("top_probability", top).append_column("asked_at", asked)
            none = pa.nulls(rows.num_rows, pa.list_(pa.float64()))
            for batch in rows.append_column("label_confidence", none).combine_chunks().to_batches():
                records.add(batch)
            known = part.outcomes
            about = pc.index_in(known["record_id"], part.records["id"].combine_chunks())
            known = known.append_column("record_created_at", part.records["created_at"].take(about))
            known = known.append_column("id", pa.array(np.arange(first, first + known.num_rows)))
            first += known.num_rows
            for batch in known.combine_chunks().to_batches():
                outcomes.add(batch)
    let_count(exported, Run(begin=None, end=END, files=[*records.written, *outcomes.written]))


def _copy(connection: "psycopg.Connection[tuple[Any, ...]]", table: str, rows: pa.Table) -> None:
    columns = ", ".join(f'"{name}"' for name in rows.column_names)
    text = rows
    for at, field in enumerate(rows.schema):
        if pa.types.is_fixed_size_binary(field.type):
            text = text.set_column(at, field.name, _hex(rows[field.name]))
        elif pa.types.is_struct(field.type):
            text = text.set_column(at, field.name, _objects(rows[field.name].combine_chunks()))
        elif pa.types.is_list(field.type):
            text = text.set_column(at, field.name, _braced(rows[field.name].combine_chunks()))
    buffer = pa.BufferOutputStream()
    csv.write_csv(text, buffer, csv.WriteOptions(include_header=False))
    with connection.cursor().copy(f"copy {table} ({columns}) from stdin (format csv)") as copy:
        copy.write(memoryview(buffer.getvalue()))


def _hex(ids: pa.ChunkedArray) -> pa.Array:
    raw = np.frombuffer(ids.combine_chunks().buffers()[1], np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    pairs = np.stack([digits[raw >> 4], digits[raw & 15]], axis=1).reshape(-1, 32)
    return (
        pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(32), len(pairs), [None, pa.py_buffer(np.ascontiguousarray(pairs))]
        )
        .cast(pa.binary())
        .cast(pa.string())
    )


def _braced(lists: pa.ListArray) -> pa.Array:
    texts = lists.cast(pa.list_(pa.string()))
    return pc.binary_join_element_wise("{", pc.binary_join(texts, ","), "}", "")


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-values))


def _uuid7(rng: np.random.Generator, times: NDArray[np.datetime64]) -> pa.Array:
    raw = rng.integers(0, 256, (len(times), 16), dtype=np.uint8)
    milliseconds = times.astype("datetime64[ms]").astype(">u8").view(np.uint8).reshape(-1, 8)
    raw[:, :6] = milliseconds[:, 2:]
    raw[:, 6] = 0x70 | (raw[:, 6] & 0x0F)
    raw[:, 8] = 0x80 | (raw[:, 8] & 0x3F)
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(raw), [None, pa.py_buffer(raw)])


def _timestamps(times: NDArray[np.datetime64]) -> pa.Array:
    return pa.array(times).cast(pa.timestamp("us", "UTC"))


def _json_texts(labels: NDArray[np.str_]) -> pa.Array:
    names, codes = np.unique(labels, return_inverse=True)
    texts = pa.array([orjson.dumps(str(name)).decode() for name in names])
    return texts.take(pa.array(codes))


def _lists(first: NDArray[np.generic], second: NDArray[np.generic], two: NDArray[np.bool_]) -> pa.Array:
    """[n], lists of the first, or of both where `two`."""
    pairs = np.stack([first, second], axis=1)
    kept = np.stack([np.ones(len(two), bool), two], axis=1)
    offsets = np.concatenate([[0], np.cumsum(1 + two)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(pairs[kept]))


def _objects(scores: pa.StructArray) -> pa.Array:
    parts: list[object] = []
    for field, values in zip(scores.type, scores.flatten(), strict=True):
        parts += ["," if parts else "{", f'"{field.name}":', values.cast(pa.string())]
    return pc.binary_join_element_wise(*parts, "}", "")


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What one process took."""

    seconds: dict[str, float]
    """By step."""

    cpu_seconds: float
    gigabytes: float
    """At the most, of memory that was its own."""

    n: int
    labelled: int


def of_the_database(dsn: str) -> Measured:
    """The whole audit from PostgreSQL: what `demur audit` does, but for starting Python."""
    steps = Steps()
    ledger = read_ledger(dsn, "bench", precedence=(), since=None, until=None, as_of=END)
    steps.end("read")
    found = audit(ledger, AuditSettings(max_risk=0.1))
    steps.end("measure")
    return _written(found, steps)


def of_the_export(url: str) -> Measured:
    """The same from Parquet, part by part: `demur audit --parquet`."""
    steps = Steps()
    parts = parts_of(url, "bench", precedence=(), since=None, until=None, as_of=None)

    def read(at: int) -> Any:
        steps.end("measure")
        ledger = parts.read(at)
        steps.end("read")
        return ledger

    found = audit_in_parts(parts.extent, one_by_one(len(parts.ranges), read), lambda _seen: AuditSettings(max_risk=0.1))
    steps.end("measure")
    return _written(found, steps)


def reading_alone(dsn: str) -> Measured:
    steps = Steps()
    ledger = read_ledger(dsn, "bench", precedence=(), since=None, until=None, as_of=END)
    steps.end("read")
    return steps.measured(len(ledger), int(ledger.known.sum()))


def exporting(dsn: str, url: str) -> Measured:
    steps = Steps()
    database = Database(dsn)
    done = export(database, url, "bench")
    database.close()
    steps.end("write")
    return steps.measured(done.rows["records"], done.rows["outcomes"])


def _written(found: Audit, steps: "Steps") -> Measured:
    found.as_json()
    found.as_html()
    steps.end("write")
    return steps.measured(found.document["records"]["n"], found.document["labels"]["known"])


class Steps:
    """A stop-watch."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._seconds: dict[str, float] = {}

    def end(self, step: str) -> None:
        now = time.perf_counter()
        self._seconds[step] = self._seconds.get(step, 0.0) + now - self._last
        self._last = now

    def measured(self, n: int, labelled: int) -> Measured:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return Measured(
            seconds=self._seconds,
            cpu_seconds=used.ru_utime + used.ru_stime,
            gigabytes=used.ru_maxrss / 1e6,
            n=n,
            labelled=labelled,
        )


def alone(what: Callable[..., Measured], *arguments: str) -> Measured:
    """Measure in a process of its own, whose memory nobody has used before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(what, arguments)


@contextmanager
def filled(folder: Path, n: int, *, all_known: bool) -> Iterator[str]:
    """The address of a PostgreSQL with so many records."""
    with EmbeddedPostgres(folder) as server:
        open_database(server.dsn).close()
        with psycopg.connect(server.dsn) as connection:
            fill(connection, made(n, all_known=all_known))
        time.sleep(2)  # until what that took is counted as the past
        yield server.dsn


def server_seconds(folder: Path) -> float:
    """What the processes of a PostgreSQL took that have ended: each connection has one."""
    pid = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
    used = psutil.Process(pid).cpu_times()
    return used.children_user + used.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records in PostgreSQL")
    parser.add_argument("--exported", type=int, default=10_000_000, help="records in Parquet")
    wanted = parser.parse_args()
    table = Table("", "records", "with outcome")
    for column in ("read s", "measure s", "write s", "all s", "CPU s", "of PostgreSQL", "memory GB"):
        table.add_column(column, justify="right")

    def add(name: str, what: Callable[..., Measured], *arguments: str, server: Path | None = None) -> None:
        before = server_seconds(server) if server else 0.0
        done = alone(what, *arguments)
        servers = f"{server_seconds(server) - before:.1f}" if server else ""
        steps = [f"{done.seconds[step]:.1f}" if step in done.seconds else "" for step in ("read", "measure", "write")]
        whole = (f"{sum(done.seconds.values()):.1f}", f"{done.cpu_seconds:.1f}", servers, f"{done.gigabytes:.2f}")
        table.add_row(name, f"{done.n:,}", f"{done.labelled:,}", *steps, *whole)
        out.print(f"{name}: {' + '.join(filter(None, steps))} s; CPU, PostgreSQL, GB: {', '.join(whole[1:])}")

    for words, all_known in (("held and spot-checked labelled", False), ("all labelled", True)):
        with (
            tempfile.TemporaryDirectory(prefix="demur-bench-") as folder,
            filled(Path(folder), wanted.rows, all_known=all_known) as dsn,
        ):
            server = Path(folder)
            add(f"reading alone, {words}", reading_alone, dsn, server=server)
            add(f"audit from PostgreSQL, {words}", of_the_database, dsn, server=server)
            if not all_known:
                add("export to Parquet", exporting, dsn, f"{folder}/export", server=server)
                add("audit of that export", of_the_export, f"{folder}/export")
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as url:
        write_export(url, made(wanted.exported))
        add("audit from Parquet", of_the_export, url)
    out.print(table)


if __name__ == "__main__":
    main()
