"""A Ray cluster of several nodes on this machine. It serves deploy/cluster.yaml by way of deploy/cluster.serve.yaml.

What is not as these files say: the folders and ports, the bucket, which is a folder here, and `sums`, which is left out
because it wants vLLM and a GPU. A node's GPU is one that Ray is told of. Hosts come and go sooner than there, so that
it can be watched.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml

from demur.serve.access.keys import make_key
from demur.serve.config.access import Scope
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from tests.conftest import ROOT, digit_rows

HERE = "127.0.0.1"

DEPLOY = """
import sys, ray, yaml
from ray import serve
from ray.serve.context import _get_global_client
from ray.serve.schema import ServeDeploySchema

told = ServeDeploySchema.model_validate(yaml.safe_load(open(sys.argv[1])))
ray.init(log_to_driver=False)
serve.start(proxy_location=told.proxy_location.value, http_options=told.http_options.model_dump())
_get_global_client().deploy_apps(told)
"""
"""What the dashboard does with what `serve deploy` sends it; a dashboard itself takes a dozen processes."""

CPUS = 8  # of each node, as Ray counts them: one has room for all that two had
MOST_NODES = 8
MOST_HOSTS = 4
PATIENCE_SECONDS = 300


class Node:
    """One node: `ray start`, and everything under it."""

    def __init__(self, *words: str, environment: dict[str, str], log: Path) -> None:
        ray = Path(sys.executable).parent / "ray"
        command = [ray, "start", "--block", "--min-worker-port=0", "--max-worker-port=0", *words]
        self._log = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_up(self) -> bool:
        return "--block" in self.said() and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether `ray start` has ended, or waits for a raylet that has died, which it does for long."""
        if self.process.poll() is not None:
            return True
        with suppress(psutil.Error):
            raylets = [child for child in psutil.Process(self.process.pid).children() if child.name() == "raylet"]
            return any(raylet.status() == psutil.STATUS_ZOMBIE for raylet in raylets)
        return False

    def processes(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        return []

    def replicas(self, deployment: str) -> list[psutil.Process]:
        """The processes of a deployment's replicas on this node, such as `Gateway` or `host-digits`."""
        return [one for one in self.processes() if _title(one).startswith(f"ray::ServeReplica:demur:{deployment}")]

    def lose(self) -> None:
        """SIGKILL of all its processes at once, as if its power went."""
        doomed = self.processes()
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self.process.wait()
        psutil.wait_procs(doomed, timeout=20)


class LocalCluster:
    """A head that serves nothing, and nodes with a pretended GPU each."""

    def __init__(self, digits: Path, *, nodes: int = 2, small: bool = False) -> None:
        """Where it is to be `small`, a gateway fewer, and none of the pages for people."""
        self.folder = Path(tempfile.mkdtemp(prefix="dm-"))  # short, because of sockets
        self.inputs = [row["input"] for row in digit_rows(digits)]
        self.inputs[1::2] = [[line[::-1] for line in value] for value in self.inputs[1::2]]  # mirrored: often held
        self._calibration = digits / "calibration.jsonl"
        self._count = nodes
        self._small = small
        self.headers: dict[str, str] = {}
        """What a caller sends to get in, once it has started."""

        self.port, self._gcs, self._clients, metrics, stats, *rest = _free_ports(5 + 4 * MOST_NODES)
        self._for_agents = [rest[at : at + 4] for at in range(0, len(rest), 4)]
        self.url = f"http://{HERE}:{self.port}"
        told = (line.split("=", 1) for line in (ROOT / "deploy/ray.env").read_text().splitlines()[1:])
        self._environment = {
            **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
            **dict(told),
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": f"{HERE}:{self._gcs}",
            "RAY_AUTH_MODE": "disabled",
            # patience with a machine that has much else to do
            "RAY_raylet_start_wait_time_s": "60",
            "RAY_SERVE_HAPROXY_STARTUP_TIMEOUT_S": "120",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "120",
            "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60",
            "RAY_SERVE_HAPROXY_BINARY_PATH": str(self._proxy_program()),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats),
            "PGHOST": str(self.folder / "db/postgres"),
            "PGUSER": "postgres",
            "PGDATABASE": "postgres",
        }
        self.dsn = f"postgresql://postgres@/postgres?host={self._environment['PGHOST']}"
        self.nodes: list[Node] = []
        self._started = 0
        self._postgres: EmbeddedPostgres | None = None

    def _proxy_program(self) -> Path:
        """What `pip install demur` makes of `demur-haproxy`, which the deployed file has in another place."""
        program = self.folder / "demur-haproxy"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m demur.serve.local.proxy "$@"\n')
        program.chmod(0o700)
        return program

    def start(self) -> None:
        """Bring up database, artifact, nodes and the service, and come back when it answers."""
        self._postgres = EmbeddedPostgres(self.folder / "db")
        self._write_configuration()
        fitting = subprocess.Popen(
            [sys.executable, "-P", "-m", "demur", "fit", "digits", "--promote", "-c", self.folder / "demur.yaml",
             "--data", self._calibration],
            cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        for _ in range(1 + self._count):
            self.add_node()
        said = fitting.communicate(timeout=PATIENCE_SECONDS)[0]
        assert fitting.returncode == 0, said.decode()
        self._make_key()
        path = self.folder / "serve.yaml"
        path.write_text(yaml.safe_dump(self._document()))
        subprocess.run([sys.executable, "-c", DEPLOY, path], cwd=ROOT, env=self._environment, check=True)
        self.wait_until(lambda: httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200)
        self.wait_until_whole()

    def add_node(self) -> None:
        """Add one, the head first; again where Ray has given up on it, as it does where the agents of a node take more
        than 15 s to start, on a machine that is busy."""
        head = [
            "--head", f"--port={self._gcs}", f"--ray-client-server-port={self._clients}", "--include-dashboard=false",
            f"--temp-dir={self.folder / 'ray'}", "--num-cpus=0", "--num-gpus=0",
        ]  # fmt: skip
        worker = [f"--address={HERE}:{self._gcs}", f"--num-cpus={CPUS}", "--num-gpus=1"]
        for _ in range(4):
            self._start(*(worker if self.nodes else head))
            node = self.nodes[-1]
            self.wait_until(lambda node=node: node.is_up or node.has_failed)
            if node.is_up:
                return
            print(f"started a node again, of which Ray said: {node.said()[-300:]} {self._last_words()}")
            self.nodes.pop().lose()
        raise AssertionError(self.said())

    def _last_words(self) -> str:
        """What the raylet that was started last has said at its end."""
        logs = sorted((self.folder / "ray").glob("session_*/logs/raylet*.out"), key=lambda path: path.stat().st_mtime)
        return logs[-1].read_text(errors="replace")[-1500:] if logs else ""

    def wait_until_whole(self) -> None:
        """Come back when there are as many gateways and hosts as the configuration wants at least."""
        wanted = {"Gateway": self.content["gateway"]["replicas"]}
        wanted["host-digits"] = self.fewest_hosts
        self.wait_until(lambda: all(len(self.replicas(name)) >= n for name, n in wanted.items()))

    @property
    def fewest_hosts(self) -> int:
        return self.content["models"]["digits"]["host"]["autoscaling"]["min"]

    def replicas(self, deployment: str) -> list[psutil.Process]:
        return [process for node in self.nodes for process in node.replicas(deployment)]

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.lose()
        if self._postgres:
            self._postgres.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def said(self) -> str:
        return "\n".join(node.said()[-3000:] for node in self.nodes)

    def _start(self, *words: str) -> None:
        self._started += 1
        log = self.folder / f"node-{self._started}.log"
        # given ports, since a raylet ends where an agent takes long to say which one it has found
        names = ("dashboard-agent-listen", "dashboard-agent-grpc", "metrics-export", "runtime-env-agent")
        agents = [f"--{name}-port={port}" for name, port in zip(names, self._for_agents.pop(), strict=True)]
        self.nodes.append(Node(*agents, *words, environment=self._environment, log=log))

    def _make_key(self) -> None:
        database = open_database(self.dsn)
        with database.transaction() as connection:
            key = make_key(connection, "callers", [Scope.PREDICT], by="tests")
        database.close()
        self.headers = {"Authorization": f"Bearer {key.text}"}

    def _write_configuration(self) -> None:
        """deploy/cluster.yaml with the folders of this machine and without the model that needs vLLM."""
        text = (ROOT / "deploy/cluster.yaml").read_text()
        for there, here in {
            "/opt/demur": ROOT,
            "/var/lib/demur": self.folder / "var",
            "s3://demur-artifacts": self.folder / "bucket",
        }.items():
            text = text.replace(there, str(here))
        self.content: dict[str, Any] = yaml.safe_load(text)
        del self.content["models"]["sums"]
        self.content["models"]["digits"]["host"]["autoscaling"] |= {
            "max": MOST_HOSTS, "up_after_seconds": 3, "down_after_seconds": 10
        }  # fmt: skip
        if self._small:
            self.content["gateway"]["replicas"] = 2
        (self.folder / "demur.yaml").write_text(yaml.safe_dump(self.content))

    def _document(self) -> dict[str, Any]:
        """deploy/cluster.serve.yaml on loopback ports: one proxy, since all nodes have the ports of one machine."""
        document: dict[str, Any] = yaml.safe_load((ROOT / "deploy/cluster.serve.yaml").read_text())
        document |= {"proxy_location": "HeadOnly", "http_options": {"host": HERE, "port": self.port}}
        if self._small:
            del document["applications"][1:]
        for application in document["applications"]:
            application["args"] = {**application["args"], "config": str(self.folder / "demur.yaml")}
        return document

    def wait_until(self, true: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(httpx.TransportError):
                if true():
                    return
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)


def _title(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _free_ports(count: int) -> list[int]:
    """Below those that the kernel gives out, so that nobody takes them in the meantime."""
    free = []
    for port in range(12_000 + os.getpid() % 6_000, 20_000):
        with socket.socket() as probe:
            try:
                probe.bind((HERE, port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise RuntimeError("no free ports")
