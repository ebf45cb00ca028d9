"""The Ray Serve applications, built from the configuration: those of `APPLICATIONS`, or `build` for all in one."""

import atexit
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ray
from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator
from ray import serve as ray_serve
from ray.serve import Application

from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactStore
from demur.serve.config.access import check_guarded
from demur.serve.config.complaint import complaint
from demur.serve.config.file import BadConfig, Config, with_absolute_paths
from demur.serve.config.hosts.host import target_of_host
from demur.serve.config.known_keys import known_keys
from demur.serve.config.scaling import Scaled
from demur.serve.configuration import load_config
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.deployments.gateway import Gateway
from demur.serve.deployments.hosts import ModelReplica, host_deployment, most_calls
from demur.serve.deployments.pages import Audits, Console
from demur.serve.deployments.whole import WholeService
from demur.serve.hosts.gpus import gpus_of_replica

PAGES_AT_A_TIME = 1000
"""Bound on requests in one replica of the pages."""

LOOK_SECONDS = 0.2
"""How often a replica that is to stop looks whether its last request has ended."""


class CannotBuild(RuntimeError):
    """The arguments of a builder are no configuration. The message says what is wrong, and where."""


class AppArgs(Config):
    """What a builder takes: the whole configuration, or `config` with the path of a file that every node has.

    Ray builds again only where arguments change: a `version` beside the path, any text, is there to be changed
    together with the file.
    """

    @model_validator(mode="wrap")
    @classmethod
    def from_file(cls, values: Any, read: ModelWrapValidatorHandler["AppArgs"]) -> "AppArgs":
        """Raises `CannotBuild`, which Ray passes on as it is: what pydantic says of it is not for people."""
        try:
            if isinstance(values, dict) and "config" in values and set(values) <= {"config", "version"}:
                values = load_config(Path(values["config"])).model_dump()
            return read(values)
        except ValidationError as error:
            raise CannotBuild(complaint(error, values, known_keys(Config))) from None
        except BadConfig as error:
            raise CannotBuild(str(error)) from None


def build(args: AppArgs) -> Application:
    """The service as one application, for `serve run`: pages and all, at `/`. On a cluster the gateway alone, since
    `serve deploy` is told of every application."""
    if _on_cluster():
        return build_gateway(args)
    if not ray.is_initialized():  # by `serve run`, which asks for no address, and listens where Ray Serve does
        for sentence in _elsewhere(args):
            print(sentence, file=sys.stderr)
    return _gateway(args, WholeService, {}, {})


def build_gateway(args: AppArgs) -> Application:
    """The gateway with a host for each model, at `/`."""
    return predictions(args, {}, {})


def predictions(args: AppArgs, left_out: Mapping[str, str], notes: Mapping[str, str]) -> Application:
    """Build what `build_gateway` builds, without the models that are left out, each with the reason why it cannot be
    served. `notes` has, for models without an artifact, what callers are told besides."""
    return _gateway(args, Gateway, left_out, notes)


def _gateway(
    args: AppArgs, replica: Callable[..., Any], left_out: Mapping[str, str], notes: Mapping[str, str]
) -> Application:
    config = _checked(args)
    dsn = _dsn(config)
    config = config.model_copy(update={"database": dsn})
    gpus = _gpus_there()
    hosts = {
        name: ray_serve.deployment(
            ModelReplica,
            name=host_deployment(name),
            **_copies(model.host, target_of_host(model.host)),
            ray_actor_options={"num_cpus": model.host.cpus, "num_gpus": gpus_of_replica(model.host, gpus)},
            max_ongoing_requests=most_calls(config, name),
            graceful_shutdown_timeout_s=config.graceful_stop_seconds,
        ).bind(name, config, fitted=_is_fitted(config, name))
        for name, model in config.models.items()
        if name not in left_out
    }
    gateway = config.gateway
    return ray_serve.deployment(
        replica,
        name=Gateway.__name__,
        **_copies(gateway, gateway.target),
        ray_actor_options={"num_cpus": gateway.cpus},
        max_ongoing_requests=gateway.max_ongoing,
        graceful_shutdown_timeout_s=config.graceful_stop_seconds,
        graceful_shutdown_wait_loop_s=LOOK_SECONDS,
    ).bind(config, dsn, hosts, left_out=dict(left_out), notes=dict(notes))


def build_console(args: AppArgs) -> Application:
    """The pages for people, at `/review`."""
    config = _checked(args)
    return ray_serve.deployment(
        Console,
        num_replicas=config.console.replicas,
        ray_actor_options={"num_cpus": config.console.cpus},
        max_ongoing_requests=PAGES_AT_A_TIME,
        graceful_shutdown_timeout_s=config.graceful_stop_seconds,
        graceful_shutdown_wait_loop_s=LOOK_SECONDS,
    ).bind(config, _dsn(config))


def build_audit(args: AppArgs) -> Application:
    """Reports, comparisons and alarms, at `/audit`; it also makes the audits that are due."""
    config = _checked(args)
    dsn = _dsn(config)
    return ray_serve.deployment(
        Audits,
        num_replicas=config.audit.replicas,
        ray_actor_options={"num_cpus": config.audit.cpus},
        max_ongoing_requests=PAGES_AT_A_TIME,
        graceful_shutdown_timeout_s=config.graceful_stop_seconds,
        graceful_shutdown_wait_loop_s=LOOK_SECONDS,
    ).bind(config.model_copy(update={"database": dsn}), dsn)


PREDICTIONS = "demur"
"""The application that answers requests; the others are for people."""

APPLICATIONS: dict[str, tuple[Callable[[AppArgs], Application], str]] = {
    PREDICTIONS: (build_gateway, "/"),
    "demur-console": (build_console, "/review"),
    "demur-audit": (build_audit, "/audit"),
}
"""What a service is made of: each application by its name in Ray Serve, with the prefix under which it answers."""


SERVE_RUN = ("127.0.0.1", 8000)
"""Where `serve run` listens: it takes neither from an application."""


def _elsewhere(config: Config) -> list[str]:
    """What to say where the configuration names another address than that of `serve run`."""
    host, port = SERVE_RUN
    wanted = config.http.host, config.http.port
    if wanted == SERVE_RUN:
        return []
    return [
        f"demur: `serve run` listens at {host}:{port}, whatever http.host and http.port say, which is"
        f" {wanted[0]}:{wanted[1]}; `demur up` listens there, and so does `serve run` in a Ray in which"
        f" `serve start --http-host {wanted[0]} --http-port {wanted[1]}` came first"
    ]


def _checked(args: AppArgs) -> Config:
    """The configuration; raises `Unguarded` where others can reach the service and nothing says who gets in."""
    check_guarded(args.access, args.http.host, on_cluster=_on_cluster())
    return with_absolute_paths(args, Path.cwd())


def _on_cluster() -> bool:
    """Whether a cluster builds the application, as with `serve deploy`, and not a process on one's own machine."""
    return bool(ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE)


def _dsn(config: Config) -> str:
    """The address of the database. The embedded one is started here, and stops with the process that builds."""
    if config.database != "embedded":
        return config.database
    if _on_cluster():
        raise BadConfig(
            "`database: embedded` belongs to a process on your own machine: use `demur up` or `serve run`, or give the"
            " address of a PostgreSQL for `serve deploy`"
        )
    embedded = EmbeddedPostgres(config.data)
    atexit.register(embedded.close)
    return embedded.dsn


def _is_fitted(config: Config, name: str) -> bool:
    """Whether an artifact is in force for a model, as far as that can be seen."""
    try:
        return ArtifactStore(config.artifacts).name_in_force(name) is not None
    except ArtifactsUnreachable:
        return False


def _copies(scaled: Scaled, target: float) -> dict[str, Any]:
    """How many replicas of a deployment Ray Serve keeps."""
    if scaled.autoscaling is None:
        return {"num_replicas": scaled.replicas}
    return {
        "autoscaling_config": {
            "min_replicas": scaled.autoscaling.min,
            "max_replicas": scaled.autoscaling.max,
            "target_ongoing_requests": target,
            "upscale_delay_s": scaled.autoscaling.up_after_seconds,
            "downscale_delay_s": scaled.autoscaling.down_after_seconds,
        }
    }


def _gpus_there() -> float:
    """GPUs of the Ray that builds; none where none has started."""
    return float(ray.cluster_resources().get("GPU", 0)) if ray.is_initialized() else 0.0
