"""What is left of a service whose main process was killed: ended, and cleared away, and nothing else."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pytest

from demur.serve.database.postgres import EmbeddedPostgres, is_alive
from demur.serve.local import reaper
from demur.serve.local.run_folder import make_run_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def folder(tmp_path):
    return make_run_folder(tmp_path)


def started(command, **options):
    return subprocess.Popen(command, start_new_session=True, **options)


def command_of(folder, data):
    return [sys.executable, "-I", "-S", reaper.__file__, str(folder.path), str(data)]


@pytest.mark.slow
def test_it_waits_for_its_starter_and_then_ends_what_belongs_to_the_run(folder, tmp_path):
    marked = {**os.environ, "RAY_AUTH_TOKEN_PATH": str(folder.token)}
    grandchild = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"
    ours = [
        started(SLEEP, env=marked),
        started([sys.executable, "-c", grandchild, *SLEEP], env=marked),
        started([*SLEEP, f"{folder.proxy}/haproxy.cfg"]),
    ]
    another = make_run_folder(tmp_path)
    theirs = started(SLEEP, env={**os.environ, "RAY_AUTH_TOKEN_PATH": str(another.token)})
    deadline = time.monotonic() + 20
    while len(reaper.processes_of(str(folder.path))) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    reaping = started(command_of(folder, tmp_path), stdin=subprocess.PIPE)
    try:
        time.sleep(0.3)
        assert folder.path.exists()
        assert all(one.poll() is None for one in ours)
        reaping.stdin.close()
        assert reaping.wait(timeout=30) == 0
        assert all(one.wait(timeout=10) == -9 for one in ours)
        assert reaper.processes_of(str(folder.path)) == []
        assert not folder.path.exists()
        assert theirs.poll() is None
        assert another.path.exists()
    finally:
        for one in (*ours, theirs, reaping):
            one.kill()
            one.wait()


@pytest.mark.slow
def test_what_hides_its_environment_is_found_by_what_started_it(folder):
    """Ray's helpers give themselves titles, which are written over the environment."""
    hiding = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:], env={}); time.sleep(600)"
    ours = started([sys.executable, "-c", hiding, *SLEEP], env={**os.environ, "RAY_AUTH_TOKEN_PATH": str(folder.token)})
    try:
        deadline = time.monotonic() + 20
        while not (below := psutil.Process(ours.pid).children()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert reaper.processes_of(str(folder.path)) == sorted([ours.pid, below[0].pid])
        reaper.end_run(str(folder.path))
        _, left = psutil.wait_procs(below, timeout=20)
        assert all(one.status() == psutil.STATUS_ZOMBIE for one in left)
    finally:
        ours.kill()
        ours.wait()


def test_what_outlives_its_parent_is_found_by_the_files_it_writes(folder):
    path = folder.ray / "agent.log"
    with open(path, "wb") as log, open(path, "rb") as read:
        orphan = started(SLEEP, env={}, pass_fds=(log.fileno(),))
        other = started(SLEEP, env={}, cwd=folder.ray, stdin=read)  # somebody who looks around there
    try:
        assert reaper.processes_of(str(folder.path)) == [orphan.pid]
    finally:
        for one in (orphan, other):
            one.kill()
            one.wait()


def test_it_works_when_its_starter_is_killed(folder, tmp_path):
    program = (
        "import subprocess, sys, time\n"
        "subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, start_new_session=True); print(flush=True)\n"
        "time.sleep(600)"
    )
    starter = started([sys.executable, "-c", program, *command_of(folder, tmp_path)], stdout=subprocess.PIPE)
    starter.stdout.readline()
    worker = started(SLEEP, env={**os.environ, "RAY_AUTH_TOKEN_PATH": str(folder.token)})
    starter.kill()
    starter.communicate()
    assert worker.wait(timeout=30) == -9
    deadline = time.monotonic() + 10
    while folder.path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_signals_do_not_end_it_early(folder, tmp_path):
    reaping = started(command_of(folder, tmp_path), stdin=subprocess.PIPE)
    time.sleep(0.5)  # until it has said what it ignores
    for number in (2, 15, 1):
        reaping.send_signal(number)
    time.sleep(0.2)
    assert reaping.poll() is None
    reaping.stdin.close()
    assert reaping.wait(timeout=20) == 0


@pytest.fixture
def database():
    """An embedded PostgreSQL in a folder whose path is short enough for its socket, and its process."""
    data = Path(tempfile.mkdtemp(prefix="demur-"))
    embedded = EmbeddedPostgres(data)
    pid = int((data / "postgres/postmaster.pid").read_text().split("\n")[0])
    yield data, embedded, pid
    embedded.close()
    shutil.rmtree(data, ignore_errors=True)


@pytest.mark.slow
def test_a_database_that_somebody_uses_is_left_alone(database, folder):
    data, _, pid = database
    reaping = started(command_of(folder, data), stdin=subprocess.DEVNULL)
    assert reaping.wait(timeout=30) == 0
    assert is_alive(pid)


def test_a_database_that_nobody_uses_any_more_is_stopped_in_order(database, folder):
    data, embedded, pid = database
    embedded._lock.close()  # as the kernel does with the lock of a process that is killed
    reaping = started(command_of(folder, data), stdin=subprocess.DEVNULL)
    assert reaping.wait(timeout=30) == 0
    assert not is_alive(pid)
    assert "database system is shut down" in (data / "postgres/log").read_text()


@pytest.mark.slow
def test_a_database_is_never_killed_although_its_environment_names_the_folder(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(folder.token))
    data = Path(tempfile.mkdtemp(prefix="demur-"))
    try:
        with EmbeddedPostgres(data):
            pid = int((data / "postgres/postmaster.pid").read_text().split("\n")[0])
            assert str(folder.path) in psutil.Process(pid).environ().get("RAY_AUTH_TOKEN_PATH", "")
            reaper.end_run(str(folder.path))
            assert is_alive(pid)
    finally:
        shutil.rmtree(data, ignore_errors=True)
