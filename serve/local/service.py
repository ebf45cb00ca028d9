"""The applications on a Ray of this machine, or on a Ray that is joined: started, looked at, stopped."""

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx

from demur.serve.config.file import Config
from demur.serve.contract.worker import Worker
from demur.serve.hosts.gpus import gpu_shortages
from demur.serve.hosts.libraries import imported_by_hosts
from demur.serve.local.front import front_of
from demur.serve.local.lean_ray import lean_start
from demur.serve.local.ray_job import isolated_job
from demur.serve.local.ray_patience import patient_start
from demur.serve.local.run_folder import RunFolder
from demur.serve.local.serve_imports import import_serve
from demur.serve.local.worker_source import start_source

if TYPE_CHECKING:
    from demur.serve.app import AppArgs

PAGES = "/review", "/audit"
"""Under which `demur.serve.app.APPLICATIONS` answers with pages; what is there is not imported before Ray is wanted."""

STYLE = "/static/now/style.css"
"""A file of all pages that anybody may read. Where no page is, a gateway or the proxy answers, and has no such file."""

LOOK_SECONDS = 0.2

PAGES_AFTER_SECONDS = 20.0
"""The pages are started at the latest so many seconds after a gateway answers, whichever models still load."""

TELL_SECONDS = 30.0
"""How often a start that takes long says what it waits for."""

STOP_SECONDS = 5.0
"""Beyond `graceful_stop_seconds`: what Ray Serve takes to see that everything has stopped."""

LEAVE_SECONDS = 5.0
"""So long Ray's own processes have to end."""

SPARE_CPUS = 4.0
"""Of the number that Ray places replicas by, beyond what the configured ones ask for."""

Say = Callable[[str], None]


class CannotStart(RuntimeError):
    """The service cannot start. The message says what is in the way, and how to clear it."""


class LocalService:
    """One service on Ray, from `start` to `stop`. Everything that Ray is asked for happens in one thread, so that the
    thread that calls can always be interrupted.

    That thread lives until the process ends: when it ends, the kernel kills the processes of Ray that it started.
    """

    def __init__(
        self,
        config: Config,
        folder: RunFolder,
        say: Say,
        *,
        headers: Mapping[str, str],
        interrupted: Callable[[], bool],
    ) -> None:
        """`headers` are what the service wants to see before it tells how it is. As soon as `interrupted` is true, the
        start ends."""
        self._config = config
        self._folder = folder
        self._front = front_of(config)
        self._say = say
        self._headers = dict(headers)
        self._worker = Worker("ray")
        self._source: subprocess.Popen[bytes] | None = None
        """The process from which workers are forked."""

        self._loop = asyncio.new_event_loop()
        self._deadline = float("inf")
        self._interrupted = interrupted
        self.stage = "Ray does not start"
        """What the start waits for, as a reason why it has not come to its end."""

    @property
    def url(self) -> str:
        """Where this machine reaches the service."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self._config.http.host, self._config.http.host)  # noqa: S104
        return f"http://{host}:{self._config.http.port}"

    def start(self, left_out: Mapping[str, str], notes: Mapping[str, str]) -> "Future[dict[str, Any]]":
        """Begin to start. The result is what `/healthz` says when all that can be awaited has come; it raises
        `CannotStart`.

        `left_out` says why models cannot be served at all, `notes` what is to be added where a model has no artifact.
        """
        self._deadline = time.monotonic() + self._config.start_seconds
        return self._worker.submit(self._start, dict(left_out), dict(notes))

    def stop(self, seconds: float) -> None:
        """Let the applications finish what they have begun, for so many seconds at most, then stop Ray, or leave it if
        it was joined."""
        self._worker.submit(self._stop, seconds).result()

    def end(self) -> None:
        """Leave Ray now. A service that was stopped has nothing left to be ended."""
        with suppress(FutureTimeout):  # a call of Ray that does not come back; the reaper ends its processes
            self._worker.submit(_leave_ray).result(LEAVE_SECONDS)
        if self._source is not None:
            self._source.kill()  # nobody wants another worker
            self._source.communicate()

    def renew_controller(self) -> None:
        """Let Ray start Serve's controller anew. It takes what it has written down, and all replicas as they are."""
        self._worker.submit(_renew_controller).result()

    def _start(self, left_out: dict[str, str], notes: dict[str, str]) -> dict[str, Any]:
        try:
            if sys.platform == "linux" and "RAY_ADDRESS" not in os.environ:
                # elsewhere a copy of a process may not use all libraries of the system
                modules = imported_by_hosts(self._config, left_out=left_out)
                self._source = start_source(self._folder.workers, modules=modules, environment=self._environment())
            import ray  # here, because importing it reads the environment

            import_serve()
            from ray import serve as ray_serve

            from demur.serve.app import APPLICATIONS, PREDICTIONS, AppArgs

            logging.getLogger("ray.serve").setLevel(logging.WARNING)
            os.environ.update(self._front.environment)
            self._start_ray()
            self._check_time()
            if "RAY_ADDRESS" not in os.environ:  # what Ray counts, not what is there, is what it can set aside
                shortages = gpu_shortages(self._config, ray.cluster_resources().get("GPU", 0.0), left_out=left_out)
                left_out |= {name: lacking.words for name, lacking in shortages.items()}
            check_any_left(self._config, left_out)
            self.stage = "Ray Serve does not start"
            arguments = AppArgs.model_validate(self._config.model_dump())
            quiet = {
                "enable_access_log": False,
                "log_level": "WARNING",
                "encoding": self._config.telemetry.logs.upper(),
            }
            http = {"host": self._front.behind, "port": self._config.http.port}
            with ThreadPoolExecutor(max_workers=1) as beside:  # models take as long to load as the proxies to start
                starting = beside.submit(ray_serve.start, http_options=http, logging_config=quiet)
                while not starting.done() and not ray_serve.status().proxies:
                    self._pause()
                if starting.done():
                    starting.result()  # raises where it failed
                self._run([PREDICTIONS], arguments, quiet, left_out, notes)
                health = self._wait_for_gateway()
            self._run([name for name in APPLICATIONS if name != PREDICTIONS], arguments, quiet, {}, {})
            return self._wait_for_all(health)
        except (CannotStart, ModuleNotFoundError):  # the command line says which package is missing
            raise
        except Exception as error:  # Ray raises what it likes; the stage and its words say enough
            raise CannotStart(f"{self.stage}: {' '.join(str(error).split())[-500:]}") from error

    def _start_ray(self) -> None:
        import ray

        if address := os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, logging_level="warning", job_config=isolated_job())
            return
        # Ray warns that it could not take SIGTERM from the main thread, which is what is wanted here.
        logging.getLogger("ray._private.worker").addFilter(lambda line: "SIGTERM handler" not in line.getMessage())
        os.environ.update(self._environment())
        metrics = self._config.telemetry.metrics_port is not None
        with (
            lean_start(self._folder.workers, metrics=metrics, source=self._source),
            patient_start(self._check_time),
        ):
            ray.init(
                address="local",
                include_dashboard=False,
                num_cpus=self._cpus(),
                object_store_memory=200 * 2**20,
                _temp_dir=str(self._folder.ray),
                logging_level="warning",
                job_config=isolated_job(),
                _metrics_export_port=self._front.ray_metrics_port,
            )

    def _environment(self) -> dict[str, str]:
        """What a Ray of this machine, and each worker of it, reads when it is imported."""
        environment = dict(self._front.environment)
        wanted = self._config.telemetry.metrics_port is not None or "RAY_enable_metrics_collection" in os.environ
        if not wanted:  # nobody would take them
            environment["RAY_enable_metrics_collection"] = "0"
        return environment

    def _cpus(self) -> int:
        """A number to place replicas by, in which all that are configured have room: they share what there is."""
        config = self._config
        asked = sum(model.host.cpus * model.host.most_replicas for model in config.models.values())
        asked += config.gateway.cpus * config.gateway.most_replicas
        asked += config.console.cpus * config.console.replicas + config.audit.cpus * config.audit.replicas
        return int(max(8, os.cpu_count() or 1, asked + SPARE_CPUS))

    def _run(
        self,
        names: Sequence[str],
        arguments: "AppArgs",
        quiet: dict[str, Any],
        left_out: Mapping[str, str],
        notes: Mapping[str, str],
    ) -> None:
        """Ask for some of the applications, and do not wait for them."""
        from ray import serve as ray_serve

        from demur.serve.app import APPLICATIONS, PREDICTIONS, predictions

        targets = []
        for name in names:
            builder, prefix = APPLICATIONS[name]
            built = predictions(arguments, left_out, notes) if name == PREDICTIONS else builder(arguments)
            targets.append(ray_serve.RunTarget(built, name=name, route_prefix=prefix, logging_config=quiet))
        ray_serve.run_many(targets, wait_for_ingress_deployment_creation=False, wait_for_applications_running=False)

    def _wait_for_gateway(self) -> dict[str, Any]:
        """Come back when a gateway answers, and either no model loads any more or that takes too long to wait for."""
        from demur.serve.app import PREDICTIONS

        since = None
        while True:
            self.stage = f"no gateway answers{self._proxy_trouble()}"
            self._pause()
            _check_ingress(PREDICTIONS, "Gateway")
            if (health := self._health()) is None:
                continue
            since = since or time.monotonic()
            if not loading(health) or time.monotonic() - since > PAGES_AFTER_SECONDS:
                return health

    def _wait_for_all(self, health: dict[str, Any]) -> dict[str, Any]:
        """Come back when the pages answer and no model loads any more, or its time is over and another one serves."""
        self._say("gateways are there; starting the pages")
        told = time.monotonic()
        while True:
            self.stage = _stage(health)
            if time.monotonic() - told > TELL_SECONDS:
                told = time.monotonic()
                self._say(f"still waiting: {self.stage}")
            if health["database"] == "ok" and not loading(health) and self._pages_answer():
                return self._checked(health)
            if health["status"] != "not ok" and time.monotonic() > self._deadline - 2 * LOOK_SECONDS:
                self._say(f"{self.stage} after {self._config.start_seconds:g} s; the rest serves, and this may yet")
                return health
            self._pause()
            for name, ingress in (("demur-console", "Console"), ("demur-audit", "Audits")):
                _check_ingress(name, ingress)
            health = self._health() or health

    def _checked(self, health: dict[str, Any]) -> dict[str, Any]:
        """Raise `CannotStart` where no model will ever serve."""
        if len(told := failed(health)) == len(self._config.models):
            raise CannotStart(_in_words(told))
        return health

    def _proxy_trouble(self) -> str:
        """What HAProxy has written about itself, if that is no mere notice."""
        lines = [line for log in self._folder.proxy.glob("*/*.stderr.log") for line in log.read_text().splitlines()]
        return next((f": HAProxy says {line}" for line in reversed(lines) if line.startswith("[ALERT]")), "")

    def _health(self) -> dict[str, Any] | None:
        """What `/healthz` says; None while nothing of ours answers."""
        try:
            said = httpx.get(f"{self.url}/healthz", headers=self._headers, timeout=10).json()
        except (httpx.TransportError, ValueError):
            return None
        return said if isinstance(said, dict) and "models" in said else None

    def _pages_answer(self) -> bool:
        """Whether the proxy sends what asks for pages to them: until it does, the gateway or the proxy answers."""
        try:
            return all(httpx.get(f"{self.url}{pages}{STYLE}", timeout=5).status_code == 200 for pages in PAGES)
        except httpx.TransportError:
            return False

    def _pause(self) -> None:
        time.sleep(LOOK_SECONDS)
        self._check_time()

    def _check_time(self) -> None:
        if self._interrupted():
            raise CannotStart("the start was interrupted")
        if time.monotonic() > self._deadline:
            raise CannotStart(
                f"{self.stage} after {self._config.start_seconds:g} s; set start_seconds higher if it only takes longer"
            )

    def _stop(self, seconds: float) -> None:
        import ray
        from ray import serve as ray_serve

        from demur.serve.app import APPLICATIONS

        if not ray.is_initialized():
            return
        self._say("stopping Ray ...")
        try:
            self._close_gateways(seconds)
            for application in APPLICATIONS:
                ray_serve.delete(application, _blocking=False)
            deadline = time.monotonic() + seconds + STOP_SECONDS
            while ray_serve.status().applications.keys() & APPLICATIONS.keys() and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            _leave_ray()

    def _close_gateways(self, seconds: float) -> None:
        """Let every gateway refuse what comes, and end what it has while hosts are still there."""
        from ray import serve as ray_serve

        from demur.serve.app import PREDICTIONS

        async def close() -> None:
            gateways = ray_serve.get_deployment_handle("Gateway", PREDICTIONS)
            await gateways.broadcast("close_entrance", seconds).results_async(timeout_s=seconds + STOP_SECONDS)

        # The handle goes on listening in the loop in which it is first used, so that loop must outlive Ray.
        threading.Thread(target=self._loop.run_forever, name="handles", daemon=True).start()
        try:
            asyncio.run_coroutine_threadsafe(close(), self._loop).result(timeout=seconds + 2 * STOP_SECONDS)
        except Exception as error:  # whatever is wrong with them, the service is to stop
            self._say(f"the gateways could not be closed first: {type(error).__name__}: {error}")


def loading(health: Mapping[str, Any]) -> list[str]:
    """Models that do not serve yet, and for which nothing is known that would keep them from it."""
    return [name for name, model in health["models"].items() if model["status"] == "not ready"]


def failed(health: Mapping[str, Any]) -> dict[str, str]:
    """Models that will not serve unless something is changed, with the reason."""
    return {name: model["detail"] for name, model in health["models"].items() if model["status"] == "failed"}


def _stage(health: Mapping[str, Any]) -> str:
    if health["database"] != "ok":
        return "the database does not answer"
    if names := loading(health):
        return f"{', '.join(names)}: still loading"
    return "the pages do not answer"


def check_any_left(config: Config, left_out: Mapping[str, str]) -> None:
    """Raise `CannotStart` where every model is left out."""
    if not set(config.models) - set(left_out):
        raise CannotStart(_in_words(left_out))


def _in_words(reasons: Mapping[str, str]) -> str:
    """Why no model can be served."""
    return "; ".join(f"model {name!r}: {why}" for name, why in reasons.items())


def _check_ingress(application: str, deployment: str) -> None:
    """Raise `CannotStart` where an application's front cannot be started: nothing of it would ever answer."""
    from ray import serve as ray_serve

    from demur.serve.deployments.host_trouble import why_failed

    status = ray_serve.status().applications.get(application)
    if status and (front := status.deployments.get(deployment)) and (why := why_failed(front)):
        raise CannotStart(f"{application}: {why}")


def _leave_ray() -> None:
    import ray

    if ray.is_initialized():
        ray.shutdown()


def _renew_controller() -> None:
    import ray
    from ray.serve.context import _get_global_client

    if client := _get_global_client(raise_if_no_controller_running=False):
        ray.kill(client._controller, no_restart=False)
