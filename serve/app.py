"""The Ray Serve applications, built from the configuration: `serve.app:build` and the others of `APPLICATIONS`."""

import atexit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray
from pydantic import model_validator
from ray import serve as ray_serve
from ray.serve import Application

from serve.config.file import BadConfig, Config, load_config, with_absolute_paths
from serve.config.hosts import ClassifierHost, HostConfig, OpenAIHost
from serve.deployments import Audits, Console, Gateway, Host, LanguageModelHost
from serve.postgres import EmbeddedPostgres

MAX_ONGOING = 10_000
"""Bound on HTTP requests in one gateway; the batchers' own bounds are reached before it. A request that waits for an
outcome is one of them for as long as it waits, and a connection of the proxy in front, which has 4,096 of them in all:
`serve.gateway.outcome_watch.MOST_WAITING` leaves half of those to predictions and people."""


class AppArgs(Config):
    """What a builder takes: the whole configuration, or `config` with the path of a file."""

    @model_validator(mode="before")
    @classmethod
    def from_file(cls, values: Any) -> Any:
        if isinstance(values, dict) and set(values) == {"config"}:
            return load_config(Path(values["config"])).model_dump()
        return values


def build(args: AppArgs) -> Application:
    """The gateway with a host for each model, at `/`."""
    config = with_absolute_paths(args, Path.cwd())
    dsn = _dsn(config)
    config = config.model_copy(update={"database": dsn})
    hosts = {
        name: ray_serve.deployment(
            Host if isinstance(model.host, ClassifierHost) else LanguageModelHost,
            name=f"host-{name}",
            num_replicas=model.host.replicas,
            ray_actor_options={"num_cpus": model.host.cpus, "num_gpus": _gpus(model.host)},
            max_ongoing_requests=model.host.batch.in_flight + 4,  # and room for questions about its state
        ).bind(name, config)
        for name, model in config.models.items()
    }
    return ray_serve.deployment(Gateway, ray_actor_options={"num_cpus": 0.5}, max_ongoing_requests=MAX_ONGOING).bind(
        config, dsn, hosts
    )


def build_console(args: AppArgs) -> Application:
    """The pages for people, at `/review`."""
    config = with_absolute_paths(args, Path.cwd())
    return ray_serve.deployment(Console, ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000).bind(
        config, _dsn(config)
    )


def build_audit(args: AppArgs) -> Application:
    """Reports, comparisons and alarms, at `/audit`; it also makes the audits that are due."""
    config = with_absolute_paths(args, Path.cwd())
    dsn = _dsn(config)
    return ray_serve.deployment(Audits, ray_actor_options={"num_cpus": 0.1}, max_ongoing_requests=1000).bind(
        config.model_copy(update={"database": dsn}), dsn
    )


APPLICATIONS: dict[str, tuple[Callable[[AppArgs], Application], str]] = {
    "demur": (build, "/"),
    "demur-console": (build_console, "/review"),
    "demur-audit": (build_audit, "/audit"),
}
"""What a service is made of: each application by its name in Ray Serve, with the prefix under which it answers."""


def _dsn(config: Config) -> str:
    """The address of the database. The embedded one is started here, and stops with the process that builds."""
    if config.database != "embedded":
        return config.database
    if ray.is_initialized() and ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
        raise BadConfig(
            "`database: embedded` belongs to a process on your own machine: use `demur up` or `serve run`, or give the"
            " address of a PostgreSQL for `serve deploy`"
        )
    embedded = EmbeddedPostgres(config.data)
    atexit.register(embedded.close)
    return embedded.dsn


def _gpus(host: HostConfig) -> float:
    if host.gpus is not None:
        return host.gpus
    if isinstance(host, OpenAIHost) or getattr(host, "device", "auto") in ("cpu", "mps") or not ray.is_initialized():
        return 0
    return float(min(1, ray.cluster_resources().get("GPU", 0)))
