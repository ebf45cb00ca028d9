"""More patience with the start of Ray than Ray has.

Ray gives up in two places, and neither can be configured. Its Python part waits 30 seconds for the node process of the
machine (the raylet). The raylet waits 15 seconds for each of its helper processes to write a port into a file, and then
ends with a failed check. On two processors that some twenty processes want, both are too short.
"""

import inspect
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from demur.serve.local.environment import quiet_ports

NODE_SECONDS = 180.0
"""How long the raylet may take to say that it is there."""

LOOK_SECONDS = 0.1

HELPER_PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port")
"""Ports of the raylet's helpers, as Ray names them. The raylet waits for no file if it is told the port."""


class RayletEnded(Exception):
    """The raylet ended while Ray started. The message says what its log ends with. (Ray would take a RuntimeError for
    "not there yet".)"""


@contextmanager
def patient_start(check: Callable[[], None] = lambda: None, seconds: float = NODE_SECONDS) -> Iterator[None]:
    """Within, `ray.init` waits so many seconds for the raylet that it starts. `check` is called now and then, and may
    raise. A raylet that has ended is not waited for.

    Ray asks again and again, and looks at the clock only after an answer. So the question is made to take longer.

    Raises:
        RayletEnded: by `ray.init`, if the raylet has ended.
    """
    from ray._private import services  # here, because importing it reads the environment

    ask_once, start_once = services.get_node, services.start_raylet
    raylet: list[subprocess.Popen[bytes]] = []
    its_log: list[str] = []

    def start(*words: Any, **named: Any) -> Any:
        told = inspect.signature(start_once).bind(*words, **named).arguments
        _spare_its_waiting(told)
        started = start_once(**told)
        raylet.append(started.process)
        its_log.append(told["raylet_stderr_filepath"])
        return started

    def ask(gcs_address: str, node_id: str) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                return ask_once(gcs_address, node_id)
            except RuntimeError:  # it is not there yet
                if time.monotonic() >= deadline:
                    raise
            if raylet and raylet[0].poll() is not None:
                break
            check()
            time.sleep(LOOK_SECONDS)
        raise RayletEnded(f"Ray's node process ended while it started; its log ends with: {_last_words(its_log[0])}")

    services.get_node, services.start_raylet = ask, start
    try:
        yield
    finally:
        services.get_node, services.start_raylet = ask_once, start_once


def _spare_its_waiting(told: dict[str, Any]) -> None:
    """Tell the raylet beforehand what it would wait for. `told`: the arguments of its start, which this changes."""
    compiled: Any = import_module("ray._raylet")  # which names no types
    for name, port in zip(HELPER_PORTS, quiet_ports(len(HELPER_PORTS)), strict=True):
        told[name] = told.get(name) or port
    # This one it reads from a file, whatever it is told. The helper itself writes -1 if it serves no HTTP. It does so
    # for Ray's own job submission alone, which is not used here.
    compiled.persist_port(told["session_dir"], told["node_id"], compiled.DASHBOARD_AGENT_LISTEN_PORT_NAME, -1)


def _last_words(path: str) -> str:
    """What a log ends with: the first line of its last failed check, else its last line."""
    try:
        with open(path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
    except OSError:
        lines = []
    failed = [line for line in lines if "Check failed" in line]
    return (failed or lines or ["(nothing)"])[-1][-400:]
