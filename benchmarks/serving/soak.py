"""Everything at once for a long time: does memory stay flat, does latency, and what does a record take on the disk?

    python -m benchmarks.serving.soak --minutes 30

A service of its own with the quickstart's two models is asked for single predictions with and without keys, batches and
chats, and told outcomes; people claim cases and answer them. The table has the memory of every process with its slope
over the time after the first fifth, the latency of each kind in slices of time, and the bytes per record.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import psycopg
import yaml
from rich.console import Console
from rich.table import Table

from tests.conftest import ROOT, digit_rows
from tests.system.conftest import Service

SAMPLE_SECONDS = 5.0
SLICES = 6
PROCESSES = {
    "demur up": "demur up",
    "ray::ServeReplica:demur:Gateway": "gateway",
    "ray::ServeReplica:demur:host-digits": "host of digits",
    "ray::ServeReplica:demur:host-sums": "host of sums",
    "ray::ServeReplica:demur-console": "console",
    "ray::ServeReplica:demur-audit": "audits",
    "ray::ServeController": "Serve's controller",
    "ray::ProxyActor": "Serve's proxy",
    "ray::HAProxy": "Serve's proxy",
    "haproxy": "HAProxy",
    "raylet": "raylet",
    "gcs_server": "Ray's GCS",
    "postgres": "PostgreSQL, all of it",
}

out = Console()


class Both(Service):
    """The quickstart with both of its models."""

    def __init__(self, digits: Path) -> None:
        super().__init__(digits)
        content = yaml.safe_load((self.folder / "demur.yaml").read_text())
        sums = yaml.safe_load((ROOT / "deploy/quickstart.yaml").read_text())["models"]["sums"]
        parts = self.folder / "var/sums"
        subprocess.run([sys.executable, "-m", "deploy.models.sums.parts", parts], check=True, cwd=ROOT)
        sums["host"]["checkpoint"] = str(ROOT / "deploy/models/sums")
        content["models"]["sums"] = sums
        content["models"]["digits"]["spot_check"] = 0.02
        self.sums = [json.loads(line)["input"] for line in (parts / "total/test.jsonl").read_text().splitlines()]
        (self.folder / "demur.yaml").write_text(yaml.safe_dump(content))

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder / 'var/postgres'}"


class Callers:
    """Threads that ask without pause, or with one, and note how long each kind of request took."""

    def __init__(self, url: str, rows: list[dict[str, Any]], sums: list[Any]) -> None:
        self.url, self.rows, self.sums = url, rows, sums
        self.stopped = threading.Event()
        self.took: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.troubles: Counter[str] = Counter()
        self.threads: list[threading.Thread] = []

    def start(
        self, kind: str, do: Callable[[httpx.Client, random.Random], httpx.Response | None], pause: float
    ) -> None:
        def work(seed: int) -> None:
            rng = random.Random(seed)
            with httpx.Client(base_url=self.url, timeout=60) as client:
                while not self.stopped.wait(pause):
                    began = time.monotonic()
                    try:
                        answer = do(client, rng)
                    except httpx.TransportError as error:
                        self.troubles[f"{kind}: {type(error).__name__}"] += 1
                        continue
                    if answer is None:
                        continue
                    if answer.status_code >= 400:
                        self.troubles[f"{kind}: {answer.status_code} {answer.text[:80]}"] += 1
                    self.took[kind].append((time.monotonic(), time.monotonic() - began))

        self.threads.append(threading.Thread(target=work, args=(len(self.threads),), daemon=True))
        self.threads[-1].start()

    def body(self, rng: random.Random) -> dict[str, Any]:
        row = rng.choice(self.rows)
        value = [line[::-1] for line in row["input"]] if rng.random() < 0.5 else row["input"]
        return {"model": "digits", "input": value, "group": rng.choice("abc")}

    def single(self, client: httpx.Client, rng: random.Random) -> httpx.Response:
        return client.post("/v1/predict", json=self.body(rng))

    def keyed(self, client: httpx.Client, rng: random.Random) -> httpx.Response:
        key = f"{rng.random()}"
        asked = self.body(rng)
        first = client.post("/v1/predict", json=asked, headers={"Idempotency-Key": key})
        if rng.random() < 0.2:
            client.post("/v1/predict", json=asked, headers={"Idempotency-Key": key})
        if rng.random() < 0.3 and first.status_code == 200:
            label = first.json()["prediction"]
            client.post(f"/v1/predictions/{first.json()['id']}/outcome", json={"label": label})
        return first

    def batch(self, client: httpx.Client, rng: random.Random) -> httpx.Response:
        return client.post("/v1/predict/batch", json={"items": [self.body(rng) for _ in range(64)]})

    def chat(self, client: httpx.Client, rng: random.Random) -> httpx.Response:
        asked = rng.choice(self.sums)
        messages = asked["messages"] if isinstance(asked, dict) else [{"role": "user", "content": str(asked)}]
        return client.post("/v1/chat/completions", json={"model": "sums", "messages": messages})

    def review(self, client: httpx.Client, rng: random.Random) -> httpx.Response | None:
        name = {"X-Demur-Reviewer": f"person{rng.randrange(5)}"}
        claimed = client.post("/review/v1/cases/next", json={"model": "digits"}, headers=name)
        if claimed.status_code != 200:
            return claimed
        claim = claimed.json()
        answer = {"token": claim["token"], "label": rng.choice("0123456789")}
        return client.post(f"/review/v1/cases/{claim['case_id']}/answer", json=answer, headers=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--callers", type=int, default=4, help="of single predictions; others come beside them")
    parser.add_argument("--json", type=Path, help="where to write the figures as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, ROOT / "deploy/models/digits/parts.py", folder], check=True, capture_output=True
        )
        service = Both(Path(folder))
        try:
            service.start(patience=600)
            told = soak(service, digit_rows(Path(folder)), minutes=asked.minutes, callers=asked.callers)
        finally:
            service.remove()
    show(told)
    if asked.json:
        asked.json.write_text(json.dumps(told, indent=1))


def soak(service: Both, rows: list[dict[str, Any]], *, minutes: float, callers: int) -> dict[str, Any]:
    """Ask for so long, and return what was measured."""
    load = Callers(service.url, rows, service.sums)
    records, size = on_disk(service)
    began = time.monotonic()
    for _ in range(callers):
        load.start("single", load.single, 0.0)
    load.start("keyed", load.keyed, 0.01)
    load.start("batch of 64", load.batch, 0.2)
    load.start("chat", load.chat, 0.2)
    for _ in range(2):
        load.start("review", load.review, 0.1)
    memory: dict[str, list[tuple[float, float]]] = defaultdict(list)
    while (now := time.monotonic() - began) < minutes * 60:
        for name, megabytes in memory_of(service).items():
            memory[name].append((now, megabytes))
        time.sleep(SAMPLE_SECONDS)
    load.stopped.set()
    for thread in load.threads:
        thread.join()
    seconds = time.monotonic() - began
    records_after, size_after = on_disk(service)
    return {
        "minutes": seconds / 60,
        "records": records_after - records,
        "records_per_second": (records_after - records) / seconds,
        "bytes_per_record": (size_after - size) / max(records_after - records, 1),
        "memory": {name: slope(points) for name, points in sorted(memory.items())},
        "latency": {kind: sliced(points, began, seconds) for kind, points in load.took.items()},
        "troubles": dict(load.troubles),
    }


def memory_of(service: Both) -> dict[str, float]:
    """Megabytes that belong to each kind of process alone."""
    found: dict[str, float] = defaultdict(float)
    for process in service.processes():
        try:
            title = " ".join(process.cmdline())
            name = next(
                (name for prefix, name in PROCESSES.items() if prefix in title[:200] or prefix in process.name()), None
            )
            if name is None and "-m demur up" in title:
                name = "demur up"
            if name is not None:
                found[name] += process.memory_full_info().uss / 2**20
        except psutil.Error:
            continue
    return dict(found)


def slope(points: list[tuple[float, float]]) -> dict[str, float]:
    """Megabytes at the start and at the end, and per hour with its standard error, after the first fifth."""
    times, sizes = np.array(points).T
    late = times >= times[-1] / 5
    x, y = times[late] / 3600, sizes[late]
    told = {"start": float(sizes[0]), "end": float(sizes[-1])}
    if len(x) < 3:
        return told | {"per_hour": float("nan"), "error": float("nan")}
    (rate, base), residuals = np.polyfit(x, y, 1), None
    residuals = y - (rate * x + base)
    error = np.sqrt(residuals @ residuals / (len(x) - 2) / ((x - x.mean()) @ (x - x.mean())))
    return told | {"per_hour": float(rate), "error": float(error)}


def sliced(points: list[tuple[float, float]], began: float, seconds: float) -> list[dict[str, float]]:
    """How many there were in each slice of the time, and their percentiles in milliseconds."""
    slices: list[list[float]] = [[] for _ in range(SLICES)]
    for at, took in points:
        slices[min(SLICES - 1, int((at - began) / seconds * SLICES))].append(1000 * took)
    return [
        {"n": len(one), **{f"p{q}": float(np.percentile(one, q)) if one else float("nan") for q in (50, 95, 99)}}
        for one in slices
    ]


def on_disk(service: Both) -> tuple[int, int]:
    """How many records there are, and the bytes of the database, its log of changes left aside."""
    with psycopg.connect(service.dsn) as connection:
        row = connection.execute(
            "select (select count(*) from records), pg_database_size(current_database())"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def show(told: dict[str, Any]) -> None:
    out.print(
        f"{told['minutes']:.1f} minutes, {told['records']:,} records ({told['records_per_second']:,.0f} a second),"
        f" {told['bytes_per_record']:,.0f} bytes of the database for each; troubles: {told['troubles'] or 'none'}"
    )
    table = Table("process", "MB at first", "MB at last", "MB per hour", "standard error", title="memory of its own")
    for name, one in told["memory"].items():
        table.add_row(name, *(f"{one[key]:,.1f}" for key in ("start", "end", "per_hour", "error")))
    out.print(table)
    table = Table(
        "request", *(f"{n + 1} of {SLICES}" for n in range(SLICES)), title="p50 / p95 / p99 in ms, and how many"
    )
    for kind, slices in told["latency"].items():
        table.add_row(kind, *(f"{s['p50']:.0f} / {s['p95']:.0f} / {s['p99']:.0f} ({s['n']:,})" for s in slices))
    out.print(table)


if __name__ == "__main__":
    main()
