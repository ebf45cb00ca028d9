"""A Ray with the applications that are asked, a database of their own, and what they spend."""

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil
import yaml

from benchmarks.serving.client import Load, Seen, json_bodies, run, settle
from benchmarks.serving.models import LABELS, ROOT, SENTENCES, Shape, encoder, labelled, texts
from benchmarks.serving.plain_ray import QUIET, READY
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.configuration import load_config
from demur.serve.telemetry.metrics import COMMIT_SECONDS

T = TypeVar("T")

WAYS = ("usual", "tuned", "demur", "bare", "lean")


@dataclass(frozen=True)
class Line:
    """What is asked in one row of the table."""

    model: str
    concurrency: int
    batch: int = 1


@dataclass(frozen=True)
class Run:
    """One way, asked once."""

    seen: Seen
    spent: dict[str, float]
    """Seconds of processor time of everything but the client, by what it is."""

    batch: int

    @property
    def predictions_per_second(self) -> float:
        return self.seen.per_second * self.batch

    @property
    def cpu_milliseconds(self) -> float:
        """For each request."""
        return sum(self.by_process.values())

    @property
    def by_process(self) -> dict[str, float]:
        """Milliseconds of processor time for each request."""
        requests = max(1, self.seen.statuses.get(200, 0))
        return {name: 1000 * seconds / requests for name, seconds in self.spent.items()}


class Site:
    """The applications that are asked, in a Ray of their own but for the usual way, and a database."""

    def __init__(
        self,
        models: list[str],
        *,
        shape: Shape = SENTENCES,
        host: Mapping[str, Any] = {},
        scores: Sequence[str] = ("softmax_response", "entropy"),
        policy: Mapping[str, Any] = {"kind": "target_risk", "max_risk": 0.3},
        sockets: bool = True,
    ) -> None:
        """`shape`, settings under `host`, `scores` and `policy` are those of the encoder. `sockets`: gateways call
        hosts past Ray's handles."""
        self._sockets = sockets
        self._models = models
        self._shape, self._host, self._scores, self._policy = shape, host, scores, policy

    def __enter__(self) -> "Site":
        self.folder = Path(tempfile.mkdtemp(prefix="demur-bench-"))
        self.config_file = self.folder / "demur.yaml"
        self.config_file.write_text(yaml.safe_dump(self._configuration()))
        self._stack = ExitStack()
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        if ray.is_initialized():
            from ray import serve as ray_serve

            ray_serve.shutdown()
            ray.shutdown()
        self._stack.close()

    def _configuration(self) -> dict[str, Any]:
        quickstart = yaml.safe_load((ROOT / "deploy/quickstart.yaml").read_text())
        models: dict[str, Any] = {}
        if "digits" in self._models:
            subprocess.run([sys.executable, ROOT / "deploy/models/digits/parts.py", self.folder / "digits"], check=True)
            digits = quickstart["models"]["digits"]
            digits["calibration"] = {"data": str(self.folder / "digits/calibration.jsonl")}
            models["digits"] = digits
        if "encoder" in self._models:
            encoder(self.folder / "encoder", self._shape)
            labelled(self.folder / "encoder", self.folder / "texts.jsonl")
            models["encoder"] = {
                "task": {"kind": "multiclass", "labels": list(LABELS)},
                "host": {"kind": "classifier", "checkpoint": str(self.folder / "encoder"), **self._host},
                "scores": list(self._scores),
                "confidence": {"score": "softmax_response", "calibrator": "platt"},
                "policy": dict(self._policy),
                "calibration": {"data": str(self.folder / "texts.jsonl")},
            }
        return {
            "data": str(self.folder / "var"), "artifacts": str(self.folder / "var/artifacts"), "models": models,
            "http": {"host": "127.0.0.1", "port": _free_port()}, "gateway": {"local_sockets": self._sockets},
        }  # fmt: skip

    def start(self, ways: list[str]) -> None:
        from demur.serve.database.postgres import EmbeddedPostgres
        from demur.serve.local.private_run import private_run

        config = load_config(self.config_file)
        if "usual" in ways:
            self._start_usual()
        self._folder_of_ray = self._stack.enter_context(private_run())[0].ray
        self.postgres = self._stack.enter_context(EmbeddedPostgres(config.data))
        for name in self._models:
            told = ["--config", str(self.config_file), "--data", str(config.models[name].calibration.data)]
            fit = [sys.executable, "-P", "-m", "demur", "fit", name, *told, "--promote", "--anyway"]
            subprocess.run(fit, check=True, stdout=subprocess.DEVNULL)  # random weights may rank no better than chance
        config = self.config = config.model_copy(update={"database": self.postgres.dsn})
        self.port = config.http.port
        if set(ways) - {"usual"}:
            self._run(config, ways)
        self._processes = Service(self.postgres)
        # One client for all: a new process imports the main module again, which for some benchmarks means torch
        self._client = self._stack.enter_context(multiprocessing.get_context("spawn").Pool(1))

    def _start_usual(self) -> None:
        self._usual_port = _free_port()
        command = [sys.executable, "-m", "benchmarks.serving.plain_ray", str(self.config_file), str(self._usual_port)]
        child = subprocess.Popen(
            [*command, *self._models], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._stack.callback(child.wait)
        assert child.stdin
        assert child.stdout
        self._stack.callback(child.stdin.close)
        if not any(READY in line for line in child.stdout):
            raise SystemExit("the Ray of the usual way does not start")

    def _run(self, config: Config, ways: list[str]) -> None:
        import ray
        from ray import serve as ray_serve
        from ray.serve import RunTarget

        from benchmarks.serving.bare import bare, lean
        from benchmarks.serving.usual import usual
        from demur.serve.app import AppArgs, build_gateway

        ray.init(
            address="local", include_dashboard=False, num_cpus=16, object_store_memory=200 * 2**20,
            _temp_dir=str(self._folder_of_ray), logging_level="warning",
        )  # fmt: skip
        ray_serve.start(http_options={"host": "127.0.0.1", "port": self.port}, logging_config=QUIET)
        makers: dict[str, Callable[[Any], Any]] = {"tuned": usual, "bare": bare, "lean": lean}
        targets = [
            RunTarget(
                makers[way](config.models[name]),
                name=f"{way}-{name}",
                route_prefix=f"/{way}-{name}",
                logging_config=QUIET,
            )
            for name in self._models
            for way in ways
            if way in makers
        ]
        if "demur" in ways:
            targets.append(
                RunTarget(
                    build_gateway(AppArgs.model_validate(config.model_dump())),
                    name="demur",
                    route_prefix="/",
                    logging_config=QUIET,
                )
            )
        ray_serve.run_many(targets)

    def ask(self, line: Line, way: str, seconds: float) -> Run:
        before = self._processes.cpu_seconds()
        seen = self._client.apply(run, (Load(self.url(line, way), self.bodies(line, way), line.concurrency, seconds),))
        after = self._processes.cpu_seconds()
        spent = {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}
        if set(seen.statuses) != {200}:
            raise SystemExit(f"{way}: {seen.statuses}: {seen.first_refusal}")
        settle()
        return Run(seen, spent, line.batch)

    def url(self, line: Line, way: str) -> str:
        path = "/v1/predict" if way == "demur" else f"/{way}-{line.model}/predict"
        port = self._usual_port if way == "usual" else self.port
        return f"http://127.0.0.1:{port}{path}{'/batch' if line.batch > 1 else ''}"

    def bodies(self, line: Line, way: str) -> list[bytes]:
        if line.model == "digits":
            inputs = [json.loads(row)["input"] for row in (self.folder / "digits/test.jsonl").read_text().splitlines()]
        else:
            inputs = list(texts(256, 2))
        plain = way in ("usual", "tuned")
        items = [{"input": value} if plain else {"model": line.model, "input": value} for value in inputs]
        if line.batch == 1:
            return json_bodies(items)
        groups = [(items * 2)[at : at + line.batch] for at in range(0, len(items), line.batch)]
        return json_bodies([group if plain else {"items": group} for group in groups])

    def second_artifact(self) -> None:
        """Fit another artifact for the digits, beside the one in force; `promote` chooses between them."""
        store = ArtifactStore(self.config.artifacts)
        first = store.name_in_force("digits")
        rows = (self.folder / "digits/calibration.jsonl").read_text().splitlines()
        (self.folder / "fewer.jsonl").write_text("\n".join(rows[:-50]) + "\n")
        told = ["--config", str(self.config_file), "--data", str(self.folder / "fewer.jsonl")]
        fit = [sys.executable, "-P", "-m", "demur", "fit", "digits", *told, "--promote"]
        subprocess.run(fit, check=True, stdout=subprocess.DEVNULL)
        second = store.name_in_force("digits")
        if first is None or second is None or first == second:
            raise SystemExit("two different artifacts were wanted")
        self._artifacts = first, second

    def promote(self, which: int) -> None:
        store = ArtifactStore(self.config.artifacts)
        store.promote(
            "digits",
            self._artifacts[which],
            by="the benchmark",
            why="to see whether anybody notices",
            clock=lambda: datetime.now(UTC),
        )

    def commits(self) -> dict[float, float]:
        """How many transactions so far took at most so many seconds, as the gateway tells Prometheus."""
        import ray
        from prometheus_client.parser import text_string_to_metric_families

        text = httpx.get(f"http://127.0.0.1:{ray.nodes()[0]['MetricsExportPort']}/metrics", timeout=30).text
        name = f"{COMMIT_SECONDS.series[0]}"
        return {
            float(sample.labels["le"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name
        }

    def memory(self) -> dict[str, float]:
        """MB of each process, by what it is."""
        return self._processes.memory()


class Service:
    """The processes of Ray, HAProxy and PostgreSQL that were started here."""

    def __init__(self, postgres: Any) -> None:
        self._roots = [psutil.Process(), psutil.Process(postgres._server.get_pid())]

    def cpu_seconds(self) -> dict[str, float]:
        """What each has spent so far, by what it is; this process and its clients excluded."""
        spent: dict[str, float] = {}
        for root in self._roots:
            for process in root.children(recursive=True):
                try:
                    if process.ppid() == os.getpid() and "multiprocessing" in " ".join(process.cmdline()):
                        continue
                    name, times = _name(process) or "others", process.cpu_times()
                except psutil.NoSuchProcess:
                    continue
                spent[name] = spent.get(name, 0.0) + times.user + times.system
        return spent

    def memory(self) -> dict[str, float]:
        """MB that each process has for itself, PostgreSQL's together, by what it is."""
        found: dict[str, float] = {}
        for root in self._roots:
            for process in [root, *root.children(recursive=True)]:
                try:
                    name, used = _name(process), process.memory_full_info().uss / 2**20
                except psutil.Error:
                    continue
                if name:
                    found[name] = found.get(name, 0.0) + used
        return found


def in_own_process(work: Callable[..., T], *told: Any) -> T:
    """Do work that starts a site in a process of its own: Ray reads its flags once in each."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *told).result()


def _name(process: psutil.Process) -> str:
    """What a process is; empty for one that is not looked at."""
    words = process.cmdline()
    told = words[0] if words else ""
    if told.startswith("ray::ServeReplica"):
        return told.split(":")[-1].split(".")[0]
    if told.startswith("postgres") or told.endswith("/postgres"):
        return "postgres"
    names = ("haproxy", "raylet", "gcs_server", "ServeController", "ProxyActor", "HAProxyManager")
    return next((name for name in names if name in told), "")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
