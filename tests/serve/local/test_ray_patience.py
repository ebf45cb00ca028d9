"""Ray gives up on its own node after 30 seconds, and a busy machine takes longer."""

import inspect
import itertools
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from demur.serve.local.ray_patience import RayletEnded, patient_start


@pytest.fixture
def services():
    from ray._private import services

    return services


def test_ray_asks_for_its_node_where_it_is_made_to_wait():
    from ray._private import node

    assert "ray._private.services.get_node(" in inspect.getsource(node.Node.__init__)


@pytest.mark.slow
def test_a_node_that_comes_late_is_waited_for(services, monkeypatch):
    asked = itertools.count(1)

    def late(gcs_address, node_id):
        if next(asked) < 3:
            raise RuntimeError("no such node")
        return {"node_id": node_id}

    monkeypatch.setattr(services, "get_node", late)
    with patient_start():
        assert services.get_node("an address", "a node") == {"node_id": "a node"}
    assert services.get_node is late
    assert next(asked) == 4


@pytest.mark.slow
def test_a_node_that_never_comes_is_given_up(services, monkeypatch):
    def never(gcs_address, node_id):
        raise RuntimeError("no such node")

    monkeypatch.setattr(services, "get_node", never)
    with patient_start(seconds=0.6), pytest.raises(RuntimeError, match="no such node"):
        services.get_node("an address", "a node")


def test_a_start_that_is_ended_meanwhile_waits_no_longer(services, monkeypatch):
    def never(gcs_address, node_id):
        raise RuntimeError("no such node")

    def ended():
        raise KeyboardInterrupt

    monkeypatch.setattr(services, "get_node", never)
    with patient_start(ended), pytest.raises(KeyboardInterrupt):
        services.get_node("an address", "a node")
    assert services.get_node is never


@pytest.mark.slow
def test_helpers_that_start_late_are_waited_for(tmp_path):
    """Ray's own raylet ends if its helpers need more than 15 seconds."""
    (tmp_path / "sitecustomize.py").write_text(
        "import time\n"
        "with open('/proc/self/cmdline') as file:\n"
        "    words = file.read()\n"
        "if 'dashboard/agent.py' in words or 'runtime_env/agent/main.py' in words:\n"
        "    time.sleep(20)\n"
    )
    code = (
        "from demur.serve.local.own_ray import own_ray\n"
        "with own_ray():\n"
        "    import ray\n"
        "    print(ray.get(ray.remote(lambda: 'done').remote(), timeout=100))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=400
    )
    assert done.stdout.split() == ["done"], done.stderr


def test_a_raylet_that_has_ended_is_not_waited_for(services, monkeypatch, tmp_path):
    log = tmp_path / "raylet.err"
    log.write_text("[I] beginning\n[C] Check failed: Timed out waiting for file\n*** StackTrace\n")

    def start(session_dir, node_id, metrics_agent_port=0, raylet_stderr_filepath=None, **others):
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        return SimpleNamespace(process=ended)

    def never(gcs_address, node_id):
        raise RuntimeError("no such node")

    monkeypatch.setattr(services, "get_node", never)
    monkeypatch.setattr(services, "start_raylet", start)
    with patient_start():
        services.start_raylet(str(tmp_path), "a node", raylet_stderr_filepath=str(log))
        with pytest.raises(RayletEnded, match="Timed out waiting for file"):
            services.get_node("an address", "a node")
    assert services.start_raylet is start


def test_ray_starts_its_raylet_where_it_is_told_more():
    from ray._private import node

    assert "ray._private.services.start_raylet(" in inspect.getsource(node.Node)
