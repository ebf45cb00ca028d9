"""Workers of Ray begin as copies of one process, and share nothing with it that they change or draw."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from demur.serve.hosts.libraries import LIBRARIES
from demur.serve.local import worker_start
from demur.serve.local.run_folder import make_run_folder
from demur.serve.local.worker_source import start_source, tell_node_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Ray starts workers itself"),
]

WORKER = """
import json, os, signal, sys
print(json.dumps({
    "pid": os.getpid(), "group": os.getpgid(0), "words": sys.argv, "told": os.environ["TOLD"], "folder": os.getcwd(),
    "name": __name__, "ray": "ray" in sys.modules, "own": os.environ.get("RAY_RAYLET_PID"),
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "torch": "torch" in sys.modules,
    "oom_score": int(open("/proc/self/oom_score_adj").read()),
}), flush=True)
"""

PATIENCE_SECONDS = 120


@pytest.fixture
def folder(tmp_path):
    return make_run_folder(tmp_path)


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "worker.py"
    file.write_text(WORKER)
    return file


def asked(address, *words, first=None, **environment):
    """Ask for a worker as Ray's node process does, and return what it says. `first` is called in who asks."""
    done = subprocess.run(
        [sys.executable, worker_start.__file__, *map(str, words)],
        env={**os.environ, worker_start.ADDRESS: str(address), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
        preexec_fn=first,
    )
    return json.loads(done.stdout)


@pytest.fixture
def source(folder):
    process = start_source(folder.workers)
    tell_node_process(process, os.getpid())
    yield process
    process.kill()
    process.communicate()


def test_a_worker_is_a_copy_that_runs_its_program_in_a_group_of_its_own(source, folder, program, tmp_path):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        said = [asked(folder.workers, program, "--node=a", "--language=PYTHON", TOLD=str(n)) for n in range(2)]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert [worker["told"] for worker in said] == ["0", "1"]
    for worker in said:
        assert worker["words"] == [str(program), "--node=a"]  # the worker itself does not know `--language`
        assert worker["group"] == worker["pid"]  # Ray kills the whole group of a worker that has ended
        assert (worker["name"], worker["ray"], worker["torch"]) == ("__main__", True, False)
        assert worker["own"] is None  # its environment is the one of who asked
        assert worker["folder"] == os.getcwd()
        assert signal.SIGUSR1 in worker["blocked"]
    assert len({worker["pid"] for worker in said}) == 2


def test_where_nobody_forks_the_program_is_run_as_ray_would_run_it(folder, program):
    said = asked(folder.workers, program, "--node=a", "--language=PYTHON", TOLD="alone")
    assert (said["told"], said["ray"], said["words"]) == ("alone", False, [str(program), "--node=a"])


def test_a_source_that_was_killed_is_not_waited_for(source, folder, program):
    asked(folder.workers, program, TOLD="first")
    source.kill()
    source.communicate()
    began = time.monotonic()
    assert asked(folder.workers, program, TOLD="second")["ray"] is False
    assert time.monotonic() - began < worker_start.ASK_SECONDS


def test_where_memory_runs_out_workers_go_first_as_ray_has_it(source, folder, program):
    """Ray raises the score of the process that it started. Else PostgreSQL, say, may go in the place of a host."""

    def raised():
        with open(worker_start.OOM_SCORE, "w") as score:
            score.write("700")

    assert asked(folder.workers, program, first=raised, TOLD="raised")["oom_score"] == 700
    with open(worker_start.OOM_SCORE) as score:
        assert asked(folder.workers, program, TOLD="as it was")["oom_score"] == int(score.read())


def ask_and_leave(address, told):
    """Ask for a worker, and do not wait for it."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(address))
        socket.send_fds(asking, [b" "], range(worker_start.FILES))
        asking.sendall(told)


def test_a_worker_that_nobody_waits_for_any_more_is_not_forked(source, folder, program, tmp_path):
    """An asker who waited a minute in vain starts the worker itself; another one from here would be a second."""
    asked(folder.workers, program, TOLD="first")
    late = tmp_path / "late.py"
    late.write_text(f"open({str(tmp_path / 'was_run')!r}, 'w').close()")
    os.kill(source.pid, signal.SIGSTOP)
    ask_and_leave(
        folder.workers,
        json.dumps(
            {"words": [str(late)], "environment": {}, "folder": str(tmp_path), "blocked": [], "oom_score": "0"}
        ).encode(),
    )
    os.kill(source.pid, signal.SIGCONT)
    assert asked(folder.workers, program, TOLD="second")["ray"] is True
    time.sleep(0.5)
    assert not (tmp_path / "was_run").exists()


def test_files_of_requests_that_make_no_sense_are_closed(source, folder, program):
    asked(folder.workers, program, TOLD="first")
    before = len(os.listdir(f"/proc/{source.pid}/fd"))
    for told in (b"", b"no JSON", b"{"):
        ask_and_leave(folder.workers, told)
    assert asked(folder.workers, program, TOLD="second")["ray"] is True
    assert len(os.listdir(f"/proc/{source.pid}/fd")) == before


STRANGER = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as end:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
    end.settimeout(10)
    end.connect(sys.argv[1])
    print(end.recv(1))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_who_gets_hold_of_the_socket_is_not_listened_to(program):
    with tempfile.TemporaryDirectory() as outer:
        folder = make_run_folder(Path(outer))
        process = start_source(folder.workers)
        tell_node_process(process, os.getpid())
        try:
            asked(folder.workers, program, TOLD="first")
            for one in (Path(outer), folder.workers.parent, folder.workers):
                one.chmod(0o777)
            stranger = [sys.executable, "-c", STRANGER, str(folder.workers)]
            said = subprocess.run(stranger, capture_output=True, text=True, timeout=60, check=True).stdout
            assert said == "b''\n"
            assert asked(folder.workers, program, TOLD="second")["ray"] is True
        finally:
            process.kill()
            process.communicate()


def test_a_worker_with_an_environment_of_its_own_is_left_to_ray(source, folder, program, tmp_path):
    (tmp_path / worker_start.SETUP).write_text(WORKER)
    words = (program, f"{worker_start.OWN_ENVIRONMENT}{{}}", "--language=PYTHON")
    said = asked(folder.workers, *words, TOLD="own")
    assert said["words"] == [str(tmp_path / worker_start.SETUP), *map(str, words)]
    assert said["ray"] is False


def test_the_source_ends_with_whoever_started_it(source):
    source.communicate(timeout=PATIENCE_SECONDS)
    assert source.returncode == 0


def test_copies_draw_different_numbers_and_a_generator_that_was_used_is_found():
    code = (
        "from demur.serve.local.worker_source import draws_alike, preload\n"
        "preload()\n"
        "before = draws_alike()\n"
        "from ray._raylet import WorkerID\n"
        "WorkerID.from_random()\n"  # what Ray does for each class of actors, were it not kept from it
        "print(before, draws_alike())\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize("kind", ["transformers", pytest.param("classifier", marks=pytest.mark.long)])
def test_what_hosts_share_needs_neither_ray_nor_scikit_learn_and_starts_no_thread(kind):
    code = (
        "import os, sys\n"
        "from demur.serve.local.worker_source import draws_alike, import_for_hosts, preload\n"
        f"import_for_hosts(['{LIBRARIES[kind]}'])\n"
        "early = [one for one in ('torch', 'ray', 'sklearn', 'pandas') if one in sys.modules]\n"
        "preload()\n"
        "print(*early, len(os.listdir('/proc/self/task')), draws_alike())\n"
        "import sklearn, torch\n"  # it can still be imported
        "print(torch.cuda.is_initialized())\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # as `demur up` sets it
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["torch", "1", "False", "False"]


def test_workers_hold_what_hosts_import(folder, program):
    source = start_source(folder.workers, modules=[LIBRARIES["classifier"]])
    tell_node_process(source, os.getpid())
    try:
        assert asked(folder.workers, program, TOLD="host")["torch"] is True
    finally:
        source.kill()
        source.communicate()


def test_a_source_that_is_never_told_of_a_node_ends_with_who_started_it(folder):
    source = start_source(folder.workers)
    source.communicate(timeout=PATIENCE_SECONDS)
    assert source.returncode == 0


def test_a_library_that_cannot_be_imported_is_left_to_its_host(folder, program):
    source = start_source(folder.workers, modules=["demur.no_such_module"], environment={"ADDED": "so"})
    tell_node_process(source, os.getpid())
    try:
        assert asked(folder.workers, program, TOLD="host")["ray"] is True
    finally:
        source.kill()
        source.communicate()
