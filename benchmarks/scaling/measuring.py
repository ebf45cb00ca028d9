"""A service with so many gateways and hosts, on a Ray of one node or three, asked and looked at from outside."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import psutil
import psycopg
import yaml

from benchmarks.scaling.measurement import PARTS, Point
from benchmarks.scaling.report import say
from benchmarks.serving import client
from benchmarks.serving.models import ROOT
from benchmarks.serving.site import Site
from tests.faults.local_cluster import LocalCluster

MODEL = "digits"
ALONE = 0
"""The processor of what is set apart."""

WARM_UP_SECONDS = 1.5

T = TypeVar("T")
Spent = dict[str, float]
"""Seconds of processor time by part."""

PART_OF = {"Gateway": "gateway", "host-digits": "host", "postgres": "postgres"}
PROXIES = ("haproxy", "ProxyActor", "HAProxyManager", "demur.serve.local.proxy")


@dataclass(frozen=True)
class OfferedLoad:
    """How requests come: so many rows in each, from so many callers at a time."""

    rows: int
    callers: int


class OneNode(Site):
    """A Ray of one node, with sockets from gateways to hosts, as `demur up` has it."""

    layout = "one node"

    def __init__(self, gateways: int, hosts: int) -> None:
        super().__init__([MODEL])
        self._gateways, self._hosts = gateways, hosts
        self.headers: tuple[tuple[str, str], ...] = ()

    def _configuration(self) -> dict[str, Any]:
        told = super()._configuration()
        told["gateway"]["replicas"] = self._gateways
        told["models"][MODEL]["host"]["replicas"] = self._hosts
        return told

    @property
    def dsn(self) -> str:
        return self.postgres.dsn

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def processes(self) -> list[psutil.Process]:
        """All of Ray and PostgreSQL, without this process and its callers."""
        own = {os.getpid(), *(child.pid for child in multiprocessing.active_children())}
        return [
            child
            for root in (psutil.Process(), _postmaster(self.dsn))
            for child in [root, *root.children(recursive=True)]
            if child.pid not in own
        ]


class ThreeNodes(LocalCluster):
    """A Ray of three nodes on this machine: a head that serves nothing, and two with gateways and hosts. It has one
    proxy, since all nodes have the ports of one machine, and Ray's handles between gateways and hosts."""

    layout = "three nodes"

    def __init__(self, gateways: int, hosts: int, digits: Path) -> None:
        super().__init__(digits, small=True)
        self._gateways, self._hosts = gateways, hosts

    def _write_configuration(self) -> None:
        super()._write_configuration()
        self.content["gateway"] = {"replicas": self._gateways, "cpus": 1}
        host = self.content["models"][MODEL]["host"]
        del host["autoscaling"]
        host |= {"replicas": self._hosts, "gpus": 0, "device": "cpu", "batch": {"max_size": 64}}
        self.content["models"][MODEL] |= _as_on_one_node()
        (self.folder / "demur.yaml").write_text(yaml.safe_dump(self.content))

    @property
    def fewest_hosts(self) -> int:
        return self._hosts

    @property
    def root(self) -> str:
        return self.url

    def processes(self) -> list[psutil.Process]:
        """All of Ray and PostgreSQL."""
        postmaster = _postmaster(self.dsn)
        return [one for node in self.nodes for one in node.processes()] + [
            postmaster,
            *postmaster.children(recursive=True),
        ]


def _as_on_one_node() -> dict[str, Any]:
    """Scores and rule of the quickstart, so that both layouts do the same work."""
    told = yaml.safe_load((ROOT / "deploy/quickstart.yaml").read_text())["models"][MODEL]
    return {name: told[name] for name in ("scores", "confidence", "policy", "spot_check") if name in told}


@cache
def _postmaster(dsn: str) -> psutil.Process:
    """Return PostgreSQL's first process. It is asked for once: each question begins and ends a process there."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        parent = psutil.Process(row[0]).parent()
    assert parent is not None
    return parent


@contextmanager
def one_node(gateways: int, hosts: int) -> Iterator[OneNode]:
    """Start it, and stop it in the end."""
    site = OneNode(gateways, hosts)
    with site:
        site.start(["demur"])
        yield site


@contextmanager
def three_nodes(gateways: int, hosts: int) -> Iterator[ThreeNodes]:
    """Start it, and stop it in the end."""
    with tempfile.TemporaryDirectory(prefix="digits-") as folder:
        command = [sys.executable, str(ROOT / "deploy/models/digits/parts.py"), folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a script of ours
        cluster = ThreeNodes(gateways, hosts, Path(folder))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def part_of(process: psutil.Process) -> str:
    """Which of `PARTS` a process is."""
    words = process.cmdline()
    title = words[0] if words else process.name()
    if title.startswith("ray::ServeReplica"):
        return PART_OF.get(title.split(":")[-1].split(".")[0].split()[0], "ray")
    if title.startswith("postgres") or title.endswith("/postgres"):
        return "postgres"
    line = " ".join(words)
    return "proxy" if any(name in line for name in PROXIES) else "ray"


def _read_clocks(processes: Sequence[psutil.Process]) -> dict[psutil.Process, tuple[str, float]]:
    """Return the part of each process, and its seconds of processor time so far."""
    found = {}
    for process in processes:
        with suppress(psutil.Error, OSError, ValueError, IndexError):  # it has ended
            found[process] = part_of(process), _spent(process.pid)
    return found


def spent_during(work: Callable[[], T], processes: Callable[[], Sequence[psutil.Process]]) -> tuple[T, Spent]:
    """Do some work; return what it returns, and the seconds of processor time that each part spent meanwhile.

    Processes are listed before and after. One that began in between, such as a new connection of PostgreSQL, counts
    with all its time. One that ended in between does not count: what it took is not known, and goes to others.
    """
    before = _read_clocks(processes())
    done = work()
    spent = dict.fromkeys(PARTS, 0.0)
    for process, (part, seconds) in _read_clocks(processes()).items():
        spent[part] += seconds - before.get(process, (part, 0.0))[1]
    return done, spent


def _spent(pid: int) -> float:
    """Seconds of all threads, to the nanosecond where the kernel tells them."""
    total = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def set_apart(processes: Sequence[psutil.Process], apart: str) -> None:
    """Give a part of the service a processor of its own, and all others the rest; with no part all get all."""
    every = set(range(psutil.cpu_count() or 1))
    for process in processes:
        with suppress(psutil.Error, OSError):
            mask = every if not apart else {ALONE} if part_of(process) == apart else every - {ALONE}
            for thread in process.threads():
                with suppress(OSError):  # it has ended
                    os.sched_setaffinity(thread.id, mask)


def _ask(load: client.Load, mask: set[int]) -> tuple[client.Seen, float, float]:
    os.sched_setaffinity(0, mask)
    before, machine = time.process_time(), _busy()
    seen = client.run(load)
    return seen, time.process_time() - before, _busy() - machine


def _bodies(site: Any, rows: int) -> list[bytes]:
    if isinstance(site, OneNode):
        lines = (site.folder / "digits/test.jsonl").read_text().splitlines()
        inputs = [json.loads(line)["input"] for line in lines]
    else:
        inputs = site.inputs[0::2]
    items = [{"model": MODEL, "input": value} for value in inputs]
    if rows == 1:
        return client.json_bodies(items)
    groups = ([items[(at + i) % len(items)] for i in range(rows)] for at in range(0, len(items), rows))
    return client.json_bodies([{"items": group} for group in groups])


def measure(site: Any, asked: OfferedLoad, *, apart: str, gateways: int, hosts: int, seconds: float) -> Point:
    """Ask, and return what came of it; raises `SystemExit` where an answer was no 200."""
    set_apart(site.processes(), apart)
    every = set(range(psutil.cpu_count() or 1))
    path = "/v1/predict" if asked.rows == 1 else "/v1/predict/batch"
    headers = tuple(dict(site.headers).items())

    def load(seconds: float) -> client.Load:
        return client.Load(site.root + path, _bodies(site, asked.rows), asked.callers, seconds, headers=headers)

    mask = every - {ALONE} if apart else every
    with multiprocessing.get_context("spawn").Pool(1) as pool, psycopg.connect(site.dsn, autocommit=True) as database:
        pool.apply(_ask, (load(WARM_UP_SECONDS), mask))
        count, wal = _records(database), _wal(database)
        (seen, own, machine), spent = spent_during(lambda: pool.apply(_ask, (load(seconds), mask)), site.processes)
        wal = _wal(database) - wal
        calls, commits = _batches(database, count)
    if set(seen.statuses) != {200}:
        raise SystemExit(f"{site.layout}: {seen.statuses}: {seen.first_refusal}")
    spent["caller"] = own
    return Point(
        layout=site.layout, apart=apart, gateways=gateways, hosts=hosts, rows=asked.rows, callers=asked.callers,
        seconds=seen.seconds, requests=seen.statuses[200], calls=calls, commits=commits, wal_bytes=wal,
        p50=float(np.percentile(seen.latencies, 50)), p99=float(np.percentile(seen.latencies, 99)),
        cv=float(seen.latencies.std() / seen.latencies.mean()), spent=spent,
        others=max(0.0, machine - sum(spent.values())),
    )  # fmt: skip


def _wal(database: Any) -> float:
    return float(database.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0])


def _records(database: Any) -> int:
    return int(database.execute("select count(*) from records").fetchone()[0])


def _batches(database: Any, before: int) -> tuple[int, int]:
    """How many calls of a host and how many transactions made the records after so many. What is decided together has
    one time, and what is committed together one transaction; times of two gateways are hardly ever alike."""
    latest = _records(database) - before
    told = database.execute(
        "select count(distinct created_at), count(distinct xmin::text) from"
        " (select created_at, xmin from records order by created_at desc limit %s) r",
        (latest,),
    ).fetchone()
    return int(told[0]), int(told[1])


def _busy() -> float:
    """Seconds of processor time that all processors of the machine have worked."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - getattr(times, "guest", 0) - getattr(times, "guest_nice", 0))


def flushes(folder: Path, times: int = 200) -> np.ndarray:
    """[times] seconds of a write of 8 kB that the disk acknowledges."""
    took = np.empty(times)
    with (folder / "flushed").open("wb") as file:
        for at in range(times):
            began = time.perf_counter()
            file.write(b"x" * 8192)
            file.flush()
            os.fdatasync(file.fileno())
            took[at] = time.perf_counter() - began
    return took


def all_points(
    layout: str, gateways: int, hosts: int, loads: Mapping[str, Sequence[OfferedLoad]], seconds: float
) -> list[Point]:
    """Start one service and measure the loads of each part that is set apart; of none at first."""
    start: Callable[[int, int], AbstractContextManager[Any]] = one_node if layout == OneNode.layout else three_nodes
    found = []
    say(f"starts {layout}, {gateways} gateways, {hosts} hosts")
    with start(gateways, hosts) as site:
        with suppress(httpx.HTTPError):
            httpx.get(f"{site.root}/healthz", timeout=30)
        for part, asked in loads.items():
            for one in asked:
                point = measure(site, one, apart=part, gateways=gateways, hosts=hosts, seconds=seconds)
                say(
                    f"{layout}, {gateways} gateways, {hosts} hosts, apart: {part or 'nothing'}, {one.rows} rows,"
                    f" {one.callers} callers: {point.per_second:,.0f} predictions a second"
                )
                found.append(point)
    return found
