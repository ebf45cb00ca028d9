"""Every socket on which a running service listens is in the table of docs/security.md, at the address that it says."""

import fnmatch
import re
import time

import grpc
import psutil
import pytest

from tests.conftest import ROOT
from tests.system.conftest import Service

pytestmark = pytest.mark.slow

LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")

REPLACED_SECONDS = 30.0
"""Until there is an HAProxy again where Ray is just replacing it."""


def documented():
    """The rows of the table: patterns of process titles, and whether these listen for everybody."""
    table = (ROOT / "docs/security.md").read_text().split("| process | address |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    assert len(rows) == 7
    return [(re.findall(r"`([^`]+)`", names), "every address" in address) for names, address in rows]


def listening(service: Service):
    """Title, address and port of each listening socket of the service."""
    found = []
    for process in service.processes():
        try:
            title = " ".join(process.cmdline()) or process.name()
            for socket in process.net_connections("inet"):
                if socket.status == psutil.CONN_LISTEN:
                    found.append((_name(process, title), socket.laddr.ip, socket.laddr.port))
        except psutil.NoSuchProcess:
            continue  # Ray starts and ends workers as it likes
    return found


def _name(process, title):
    """As the table calls it: Ray's own titles, and the names of other programs."""
    if title.startswith("ray::"):
        return title.split()[0]
    name = process.name()
    return (
        "demur" if " demur" in title and name.startswith("python") else "python" if name.startswith("python") else name
    )


def test_each_listener_is_documented_at_its_address(service):
    rows = documented()
    until = time.monotonic() + REPLACED_SECONDS
    seen = listening(service)
    while "haproxy" not in {name for name, _, _ in seen}:
        assert time.monotonic() < until, seen
        time.sleep(0.2)
        seen = listening(service)
    for name, address, port in seen:
        fitting = [everywhere for patterns, everywhere in rows if any(fnmatch.fnmatch(name, one) for one in patterns)]
        assert fitting, f"{name} listens on {address}:{port} and is not in the table"
        assert address in LOOPBACK or any(fitting), f"{name} listens on {address}:{port}"


def test_only_calls_between_replicas_listen_beyond_the_loopback(service):
    beyond = {(name, port) for name, address, port in listening(service) if address not in LOOPBACK}
    assert beyond
    assert all(name.startswith("ray::ServeReplica:") for name, _ in beyond), beyond


@pytest.mark.parametrize("token", [None, "0" * 64, "Bearer " + "0" * 64])
def test_calls_between_replicas_are_refused_without_the_token_of_this_ray(service, token):
    metadata = [] if token is None else [("authorization", token)]
    for name, address, port in listening(service):
        if address in LOOPBACK or not name.startswith("ray::ServeReplica:"):
            continue
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for method in ("HandleRequest", "HandleRequestStreaming", "HandleRequestWithRejection"):
                call = channel.unary_unary(f"/ray.serve.ASGIService/{method}")
                with pytest.raises(grpc.RpcError) as refused:
                    call(b"", timeout=20, metadata=metadata)
                assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED, (name, method)
