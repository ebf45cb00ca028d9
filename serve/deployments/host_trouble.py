"""Why the host of a model does not run, as far as Ray Serve knows."""

import re
import time
from collections.abc import Mapping
from threading import Lock

from ray import serve as ray_serve
from ray.serve.schema import DeploymentStatus, DeploymentStatusOverview, ReplicaState

from demur.serve.config.hosts.kinds import HostConfig
from demur.serve.contract.hosts import ModelFailed, ModelNotReady

LOOK_SECONDS = 2.0
"""What Serve said is believed for so long."""

LONGEST_REASON = 500

COLOURS = re.compile(r"\x1b\[[0-9;]*m")

CLASS = re.compile(r"^[\w.]+\.(\w+: )")
"""Where a Python class lies, which tells a reader nothing."""


class HostTrouble:
    """What keeps the hosts of one application from running. Any thread may ask."""

    def __init__(self, application: str, hosts: Mapping[str, HostConfig]) -> None:
        """`hosts` by the name of their deployment in Ray Serve."""
        self._application = application
        self._hosts = hosts
        self._lock = Lock()
        self._seen_at = float("-inf")
        self._errors: dict[str, ModelNotReady] = {}

    def check(self, deployment: str) -> None:
        """Raise `ModelFailed` where a host cannot be started, and `ModelNotReady` where there is no room for it yet."""
        with self._lock:
            if time.monotonic() - self._seen_at > LOOK_SECONDS:
                self._errors = self._look()
                self._seen_at = time.monotonic()
            error = self._errors.get(deployment)
        if error:
            raise type(error)(str(error))

    def _look(self) -> dict[str, ModelNotReady]:
        application = ray_serve.status().applications.get(self._application)
        seen = application.deployments if application else {}
        found = {name: _error(seen[name], host) for name, host in self._hosts.items() if name in seen}
        return {name: error for name, error in found.items() if error}


def _error(deployment: DeploymentStatusOverview, host: HostConfig) -> ModelNotReady | None:
    if why := why_failed(deployment):
        return ModelFailed(why)
    if not _runs(deployment) and "to be scheduled" in deployment.message:  # which takes Serve longer than usual
        wanted = f"{host.cpus:g} CPUs" + (f" and {host.gpus:g} GPUs" if host.gpus else "")
        return ModelNotReady(
            "Ray has not placed it yet: the machine is busy, or it has no room; "
            f"each replica wants {wanted} (host.cpus, host.gpus)"
        )
    return None


def why_failed(deployment: DeploymentStatusOverview) -> str:
    """Return in one sentence why a deployment cannot be started; empty where it runs or may yet."""
    if _runs(deployment) or deployment.status != DeploymentStatus.DEPLOY_FAILED:
        return ""
    return f"it cannot be started: {last_line(deployment.message)}"


def _runs(deployment: DeploymentStatusOverview) -> bool:
    return bool(deployment.replica_states.get(ReplicaState.RUNNING, 0))


def last_line(message: str) -> str:
    """What went wrong, without the traceback before it."""
    lines = [line.strip() for line in COLOURS.sub("", message).splitlines() if line.strip()]
    return CLASS.sub(r"\1", lines[-1])[:LONGEST_REASON] if lines else "no reason is known"
