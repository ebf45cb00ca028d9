"""The sockets between gateways and hosts break off, again and again: what was on its way goes by Ray's handle."""

import ctypes
import os
import socket
import time
from contextlib import suppress

import psutil
import pytest

from tests.faults.conftest import Site, Trial

pytestmark = [
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can reach into the connections of another process"),
]

PIDFD_GETFD = 438
"""The number of the system call."""


def cut_connections(process: psutil.Process) -> int:
    """Cut every connection of a host to a gateway, and return how many there were."""
    cut = 0
    with suppress(OSError):
        watched = os.pidfd_open(process.pid)
        for name in os.listdir(f"/proc/{process.pid}/fd"):
            with suppress(OSError):
                if not os.readlink(f"/proc/{process.pid}/fd/{name}").startswith("socket:"):
                    continue
                taken = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, watched, int(name), 0)
                if taken >= 0:
                    with socket.socket(fileno=taken) as connection:
                        cut += _cut(connection)
        os.close(watched)
    return cut


def _cut(connection: socket.socket) -> bool:
    ours = connection.family == socket.AF_UNIX and "/sockets/." in str(connection.getsockname())
    if not ours or connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return False
    connection.shutdown(socket.SHUT_RDWR)
    return True


def test_the_sockets_between_gateways_and_hosts_are_cut(site: Site, trial: Trial):
    cut = []
    before = site.host_calls()

    def fault(load):
        for _ in range(10):
            cut.append(sum(cut_connections(host) for host in site.replicas("host-digits")))
            time.sleep(0.5)

    load, _ = trial(site, fault)
    assert sum(cut) > 10
    assert not load.troubles
    reasons = [told.said["reason"] for told in load.answered]
    assert not any("the model failed" in reason or "gave no answer" in reason for reason in reasons)
    site.wait_until(lambda: site.host_calls()["handle"] > before["handle"])
    assert site.host_calls()["socket"] > before["socket"]
