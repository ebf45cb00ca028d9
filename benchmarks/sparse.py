"""670,000 labels and 100,000 rows of 100 candidates, from the file to the audit: `python -m benchmarks.sparse`.

One process does all of it: it reads the labels, fits, decides through the gateway's HTTP application, writes records
to a real PostgreSQL, is told every outcome, finds labels by typing, and audits. Ray is left out, so a request does not
cross processes. Labels have four words on average; their words, like the labels of rows, are drawn by Zipf's law.
"""

import argparse
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import psycopg
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table
from starlette.testclient import TestClient

from demur.audit.ledger.from_database import read_ledger
from demur.audit.report.audit import AuditSettings, audit
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.config.label_table import LabelTable, read_labels
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.fitting.fit import fit_model
from demur.serve.web.native.app import gateway_app
from demur.serve.web.review.label_search import search_of
from demur.traffic.outcomes import LATEST
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.hosting import RunningHost

SYLLABLES = re.findall("...?", "gardenhoserelampoturbinekamisoloverstictionpumpbokradiocable")
AT_ONCE = 64
out = Console()


@dataclass
class Phases:
    """Seconds, processor seconds and memory of each step."""

    table: Table = field(
        default_factory=lambda: Table("step", "seconds", "processor s", "memory kept MB", "peak above that before MB")
    )
    lines: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        process = psutil.Process()
        before, cpu, began = process.memory_info().rss, process.cpu_times(), time.perf_counter()
        peak, over = [before], threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                peak[0] = max(peak[0], process.memory_info().rss)

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        yield
        over.set()
        watching.join()
        after, used = process.memory_info().rss, process.cpu_times()
        row = (
            name,
            f"{time.perf_counter() - began:,.1f}",
            f"{used.user + used.system - cpu.user - cpu.system:,.1f}",
            f"{(after - before) / 1e6:,.0f}",
            f"{(max(peak[0], after) - before) / 1e6:,.0f}",
        )
        self.table.add_row(*row)
        out.print(" | ".join(row))


def write_labels(path: Path, n: int) -> None:
    """`n` different labels of two to seven words."""
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(SYLLABLES, size=rng.integers(1, 5))) for _ in range(150_000)})
    order, share = rng.permutation(len(words)), 1 / np.arange(5, len(words) + 5)
    seen: dict[str, None] = {}
    while len(seen) < n:
        drawn = rng.choice(order, size=(100_000, 7), p=share / share.sum())
        sizes = rng.integers(2, 8, size=len(drawn))
        seen.update(
            dict.fromkeys(" ".join(words[at] for at in row[:m]) for row, m in zip(drawn.tolist(), sizes, strict=True))
        )
    names = list(seen)[:n]
    path.write_text("\n".join(f"{name}\tTitle of label {at}" for at, name in enumerate(names)), encoding="utf-8")


def drawn_rows(rng: np.random.Generator, n: int, width: int, n_labels: int) -> tuple[NDArray[Any], ...]:
    """Candidates [n, width], their probabilities, and which of them hold."""
    labels = np.minimum((n_labels ** rng.random((n, width))).astype(np.int64), n_labels - 1)
    labels = (labels * 7919 + np.arange(width)) % n_labels
    for row in labels:  # a candidate is there once
        if len(np.unique(row)) < width:
            row[:] = rng.choice(n_labels, size=width, replace=False)
    p = np.sort(rng.beta(0.3, 6, size=(n, width)), axis=1)[:, ::-1]
    p[:, 0] = rng.beta(5, 1, size=n)
    return labels, p.round(4), rng.random((n, width)) < p**1.2


def write_rows(path: Path, table: LabelTable, n: int, width: int) -> None:
    """A labelled file as `demur fit` reads it."""
    labels, p, holds = drawn_rows(np.random.default_rng(1), n, width, len(table.names))
    names = pa.array(table.names)
    offsets = pa.array(np.arange(0, n * width + 1, width), pa.int32())
    candidates = pa.MapArray.from_arrays(offsets, names.take(pa.array(labels.ravel())), pa.array(p.ravel()))
    ends = np.concatenate([[0], np.cumsum(holds.sum(axis=1))])
    told = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), names.take(pa.array(labels[holds])))
    parquet.write_table(pa.table({"candidates": candidates, "label": told}), path)


def configured(folder: Path, width: int) -> Config:
    model = {
        "task": {"kind": "multilabel", "labels": str(folder / "labels.txt"), "sparse": True},
        "host": {"kind": "given", "gives": ["candidates"], "candidates": width},
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "label_confidence": {"isotonic": {"k": 5}},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    return Config.model_validate({"data": str(folder), "models": {"tags": model}})


def decide(client: TestClient, table: LabelTable, n: int, width: int) -> tuple[int, list[float]]:
    """Send `n` rows in batches and tell every outcome; return how many were held, and the seconds of each batch."""
    rng, held, spent = np.random.default_rng(2), 0, []
    names = table.names
    with Progress(console=out, transient=True) as bar:
        shown = bar.add_task("rows decided, and outcomes told", total=n)
        for start in range(0, n, AT_ONCE):
            labels, p, holds = drawn_rows(rng, min(AT_ONCE, n - start), width, len(names))
            told = [[names[at] for at in row] for row in labels.tolist()]
            items = [
                {"model": "tags", "output": {"candidates": dict(zip(row, of_row, strict=True))}}
                for row, of_row in zip(told, p.tolist(), strict=True)
            ]
            began = time.perf_counter()
            reply = client.post("/v1/predict/batch", json={"items": items})
            spent.append(time.perf_counter() - began)
            results = [one["prediction"] for one in reply.raise_for_status().json()["results"]]
            held += sum(one["action"] != "answer" for one in results)
            outcomes = [
                {"id": one["id"], "label": [label for label, yes in zip(row, of_row, strict=True) if yes]}
                for one, row, of_row in zip(results, told, holds.tolist(), strict=True)
            ]
            client.post("/v1/outcomes/batch", json={"items": outcomes}).raise_for_status()
            bar.advance(shown, len(items))
    return held, spent


def searched(table: LabelTable, n: int) -> list[float]:
    """Milliseconds of each search: beginnings, words, words with a slip, whole labels, one letter."""
    rng, search, spent = np.random.default_rng(3), search_of(table), []
    for at in track(range(n), "searches", console=out, transient=True):
        name = table.names[int(rng.integers(len(table.names)))]
        words = name.split()
        slip = "".join(words[-1][i] for i in rng.permutation(len(words[-1]))[:6])
        query = (name[: int(rng.integers(2, 9))], " ".join(words[::-1][:2]), f"{words[0]} {slip}", name, name[0])[
            at % 5
        ]
        began = time.thread_time()
        search.find(query)
        spent.append(1000 * (time.thread_time() - began))
    return spent


def sizes(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        tables = ("records", "payloads", "outcomes", "review_items")
        found = [connection.execute("select pg_total_relation_size(%s)", (name,)).fetchone() for name in tables]
    return ", ".join(f"{name} {size[0] / 1e6:,.0f} MB" for name, size in zip(tables, found, strict=True) if size)


def measured(folder: Path, n_labels: int, n_rows: int, width: int) -> None:
    phases, path = Phases(), folder / "labels.txt"
    write_labels(path, n_labels)
    with phases.step(f"read {n_labels:,} labels ({path.stat().st_size / 1e6:.0f} MB) and their places"):
        table = read_labels(path)
        _ = table.index
    rows = folder / "rows.parquet"
    write_rows(rows, table, n_rows, width)
    config = configured(folder, width)
    with phases.step(f"fit on {n_rows:,} rows ({rows.stat().st_size / 1e6:.0f} MB of Parquet)"):
        done = fit_model(config, "tags", rows, clock=lambda: datetime.now(UTC), progress=lambda *_: None)
    store = ArtifactStore(config.artifacts)
    store.promote("tags", done.name, by="a benchmark", why="", clock=lambda: datetime.now(UTC))
    with EmbeddedPostgres(folder) as server:
        database = open_database(server.dsn)
        host: Any = RunningHost  # of the tests, which have no types
        running = LocalHost(host("tags", config.models["tags"], store))
        handler = make_handler(config, {"tags": running}, database)
        app = gateway_app(handler, max_body_bytes=config.limits.body_bytes)
        with TestClient(app) as client, phases.step(f"decide {n_rows:,} rows and tell their outcomes"):
            held, spent = decide(client, table, n_rows, width)
        batch = np.percentile(spent, [50, 99])
        out.print(
            f"batches of {AT_ONCE}: median {1000 * batch[0]:.0f} ms, 99th percentile {1000 * batch[1]:.0f} ms,"
            f" {n_rows / sum(spent):,.0f} rows a second; {held:,} held"
        )
        out.print(f"PostgreSQL: {sizes(server.dsn)}")
        with phases.step("build the index of the search"):
            search_of(table)
        with phases.step("1,000 searches"):
            found = np.percentile(searched(table, 1000), [50, 95, 100])
        out.print(f"a search, processor ms: median {found[0]:.1f}, 95% {found[1]:.1f}, most {found[2]:.1f}")
        with phases.step("audit: read the records"):
            ledger = read_ledger(database, "tags", precedence=LATEST, since=None, until=None, as_of=datetime.now(UTC))
        with phases.step("audit: measure and write"):
            report = audit(ledger, AuditSettings())
            report.as_json(), report.as_html()
        told = {one["name"]: one["value"] for one in report.document["estimates"]}
        wanted = ("risk", "selective_risk", "precision_at_5", "recall_at_5", "label_risk_at_5", "ece_at_5")
        out.print(", ".join(f"{name} {told[name]:.3f}" for name in wanted if told.get(name) is not None))
        database.close()
    out.print(phases.table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=670_000)
    parser.add_argument("--rows", type=int, default=100_000, help="rows that are fitted on, and rows that are decided")
    parser.add_argument("--candidates", type=int, default=100, help="of each row")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder:
        measured(Path(folder), wanted.labels, wanted.rows, wanted.candidates)


if __name__ == "__main__":
    main()
