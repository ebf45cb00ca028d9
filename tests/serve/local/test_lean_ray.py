"""Ray for one service: without the helpers that it can do without, and with workers that do not fall together."""

import inspect
import subprocess
import sys

import pytest

from demur.serve.local.lean_ray import lean_start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Ray starts workers itself")

PROGRAM = """
import os, signal, time
import psutil
from demur.serve.local.lean_ray import lean_start
from demur.serve.local.private_run import private_run
from demur.serve.local.ray_job import isolated_job
from demur.serve.local.ray_patience import patient_start
from demur.serve.local.worker_source import start_source

class Worker:
    def numbers(self):
        from ray._raylet import WorkerID
        return os.getpid(), os.getpgid(0), WorkerID.from_random().hex()

class Variable:
    def told(self):
        return os.environ["TOLD"]

with private_run() as (folder, _):
    source = start_source(folder.workers)
    import ray  # which reads the environment
    with lean_start(folder.workers, metrics=False, source=source), patient_start():
        ray.init(address="local", include_dashboard=False, num_cpus=8, logging_level="error", log_to_driver=False,
                 _temp_dir=str(folder.ray), job_config=isolated_job())
    words = [" ".join(one.cmdline()) for one in psutil.Process().children(recursive=True)]
    print(*sorted(name for name in ("dashboard.py", "agent.py", "agent/main.py", "monitor.py", "log_monitor.py")
                  if any(f"/{name}" in line for line in words if "stand_in" not in line)))
    workers = [ray.remote(Worker).remote() for _ in range(4)]
    said = ray.get([worker.numbers.remote() for worker in workers])
    pids, drawn = {pid for pid, _, _ in said}, {drawn for *_, drawn in said}
    print(len(pids), all(pid == group for pid, group, _ in said), len(drawn))
    forked = {one.pid for one in psutil.Process(source.pid).children()}
    print(pids <= forked)
    os.kill(said[0][0], signal.SIGKILL)
    time.sleep(3)
    print(ray.get([worker.numbers.remote() for worker in workers[1:]])[0][0] == said[1][0])
    own = ray.remote(Variable).options(runtime_env={"env_vars": {"TOLD": "own"}}).remote()
    print(ray.get(own.told.remote(), timeout=120))
    ray.shutdown()
    source.kill()
    source.communicate()
"""


@pytest.mark.slow
def test_helpers_are_left_out_and_a_worker_that_dies_takes_no_other_with_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, timeout=400, cwd=tmp_path, check=False
    )
    said = [line for line in done.stdout.splitlines() if "(raylet)" not in line]
    assert said == ["log_monitor.py", "4 True 4", "True", "True", "own"], done.stdout + done.stderr


def test_ray_starts_its_helpers_by_the_functions_that_are_replaced():
    from ray._private import node, services

    head, started = inspect.getsource(node.Node.start_head_processes), inspect.getsource(services.start_raylet)
    assert "self.start_monitor()" in head
    assert "services.start_api_server(" in inspect.getsource(node.Node.start_api_server)
    assert started.count("_build_python_executable_command_memory_profileable(") == 2


def test_what_is_replaced_comes_back(tmp_path):
    from ray._private import node, services

    names = ("start_raylet", "start_api_server", "_build_python_executable_command_memory_profileable")
    usual = [*(getattr(services, name) for name in names), node.Node.start_monitor]
    with lean_start(tmp_path / "workers", metrics=True):
        assert services.start_api_server() == (None, None)
    assert [*(getattr(services, name) for name in names), node.Node.start_monitor] == usual
