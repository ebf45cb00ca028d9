"""A Ray of one machine without the helpers that a single service on it has no use for.

Ray starts them for clusters, for its dashboard and for jobs that bring packages of their own. There is no option for
any of them, so the functions that start them are replaced for as long as Ray starts. docs/operations.md says what is
lost.
"""

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from demur.serve.local import stand_in, worker_start
from demur.serve.local.worker_source import tell_node_process

RUNTIME_ENVIRONMENTS = "runtime_env_agent"
METRICS = "dashboard_agent"
"""Helpers of Ray's node process, as Ray names them. It ends when one of them ends."""

NOWHERE = -1
"""The port of a helper that is not there."""


@contextmanager
def lean_start(address: Path, *, metrics: bool, source: "subprocess.Popen[bytes] | None" = None) -> Iterator[None]:
    """Within, `ray.init` starts neither a dashboard nor an autoscaler, and the helper that makes environments only when
    somebody asks for one (`stand_in`). Workers are forked by `source`, a process of `worker_source`, which is asked at
    this address; without it Ray starts them as it usually does.

    `metrics`: the helper that answers Prometheus is wanted.
    """
    from ray._private import node, services  # here, because importing it reads the environment

    idle = {RUNTIME_ENVIRONMENTS} if metrics else {RUNTIME_ENVIRONMENTS, METRICS}
    changed: list[tuple[Any, str, Callable[..., Any]]] = [
        (services, "_build_python_executable_command_memory_profileable", lambda usual: _pythons(usual, idle)),
        (services, "start_raylet", lambda usual: _with_forked_workers(usual, address, source, metrics=metrics)),
        (services, "start_api_server", lambda _: lambda *_, **__: (None, None)),
        (node.Node, "start_monitor", lambda _: lambda _: None),
    ]
    usual = [getattr(place, name) for place, name, _ in changed]
    for (place, name, change), was in zip(changed, usual, strict=True):
        setattr(place, name, change(was))
    try:
        yield
    finally:
        for (place, name, _), was in zip(changed, usual, strict=True):
            setattr(place, name, was)


def _pythons(usual: Callable[..., list[str]], idle: set[str]) -> Callable[..., list[str]]:
    """How the command of a helper begins. What follows are its file and its arguments."""

    def begin(component: str, *words: Any, **named: Any) -> list[str]:
        if component in idle:
            return [sys.executable, "-I", "-S", stand_in.__file__]
        return usual(component, *words, **named)

    return begin


def _with_forked_workers(
    usual: Callable[..., Any], address: Path, source: "subprocess.Popen[bytes] | None", *, metrics: bool
) -> Callable[..., Any]:
    """Start the node process so that it runs `worker_start` for each worker, and tell its number to who forks them."""

    @wraps(usual)  # whose arguments others ask for
    def start(*words: Any, **named: Any) -> Any:
        told = inspect.signature(usual).bind(*words, **named).arguments
        if not metrics:
            told["metrics_agent_port"] = NOWHERE
        if source is None:
            return usual(**told)
        told["setup_worker_path"] = worker_start.__file__
        os.environ[worker_start.ADDRESS] = str(address)
        try:
            started = usual(**told)
        finally:
            del os.environ[worker_start.ADDRESS]
        tell_node_process(source, started.process.pid)
        return started

    return start
