"""The process from which Ray's workers on this machine are forked, with all that they import already in memory.

Ray starts a Python for each worker: Serve's controller and proxies, gateways, pages and hosts. Each would import Ray,
Serve and demur for itself, in some seconds of processor time and a hundred megabytes. Here that is done once. A worker
then begins as a copy of this process, and shares with it what neither of them changes. What the hosts of the configured
models import is among it (torch, say), so that two of them hold it once.

Whoever asks for a worker is `worker_start`, which Ray's node process runs in the place of a worker. This process forks
while it has no other thread, and nothing of Ray has been started in it. It ends with `demur up`. Workers do not end
with it: Ray then starts the next ones as it usually does.
"""

import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import numpy as np

from demur.serve.deployments.socket_frames import user_of_peer
from demur.serve.local.serve_imports import import_serve
from demur.serve.local.worker_start import ASK_SECONDS, FILES, OOM_SCORE

PRELOADED = (
    "ray._private.workers.default_worker",
    "ray.serve._private.controller",
    "ray.serve._private.haproxy",
    "ray.serve._private.proxy",
    "ray.serve._private.replica",
    "demur.serve.deployments.gateway",
    "demur.serve.deployments.hosts",
    "demur.serve.deployments.pages",
    "demur.serve.hosts.host",
    "demur.serve.hosts.language.reviewed",
    "demur.serve.jobs.audits",
    "demur.serve.web.audit.app",
    "demur.serve.web.native.app",
    "demur.serve.web.native.fast_path",
    "demur.serve.web.review.app",
)
"""What most workers import."""

NO_JOB = "ffffffff"
"""The id of a job where there is none, in Ray's form."""

STDIN = 0

QUEUE = 64
"""Workers that may be asked for while this process still imports."""

ONE_NUMBER = 32
"""Bytes in which a process's number has room."""

ONE_BYTE = 1
"""With which the files of a worker come."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A worker that is asked for."""

    words: list[str]
    """The file of the program, and its arguments."""

    environment: dict[str, str]
    folder: str
    blocked: list[int]
    """Signals that wait until the worker takes them."""

    oom_score: str
    """The `oom_score_adj` of the process that asks for a worker, which the worker gets too (`OOM_SCORE`)."""

    files: list[int]
    """What becomes its standard input, output and errors."""


def start_source(
    address: Path, *, modules: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a process that forks workers for whoever asks at this address, a new Unix socket. Its folder is what keeps
    others out. The process ends when its standard input closes. `environment` is added to what this process has.

    It begins with `modules`, which hosts import and which do without Ray. Then it waits for `tell_node_process`, and
    workers that are asked for wait meanwhile.
    """
    command = [sys.executable, "-P", "-m", "demur.serve.local.worker_source"]
    variables = {**os.environ, **(environment or {}), "RAY_JOB_ID": NO_JOB}
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(address))
        door.listen(QUEUE)
        return subprocess.Popen(  # noqa: S603 - a program of ours
            [*command, str(door.fileno()), *modules],
            stdin=subprocess.PIPE,
            env=variables,
            pass_fds=[door.fileno()],
            start_new_session=True,
        )


def tell_node_process(source: "subprocess.Popen[bytes]", number: int) -> None:
    """Say which process is Ray's node. Ray reads it when it is imported, and with it the job that a worker begins with:
    no job yet, as for workers that Ray starts before anybody wants one."""
    assert source.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, and Ray starts workers itself
        source.stdin.write(str(number).encode())
        source.stdin.flush()


def import_for_hosts(modules: Sequence[str]) -> None:
    """Import these as if scikit-learn were not installed. Whoever imports it later finds it. What cannot be imported is
    left to the host that needs it, which says why.

    The transformers library loads it, and with it SciPy, pandas and pyarrow, for one way of writing texts that demur
    has no use for. They take 60 MB.
    """
    if not modules:
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        for name in modules:
            with suppress(Exception):  # a library may raise anything
                importlib.import_module(name)
    finally:
        del sys.modules["sklearn"]


def preload() -> None:
    """Import what workers import, and leave Ray's generator of random numbers untouched.

    Ray draws the number of each class of actors when it is imported. The generator would be copied with its state:
    all workers would give the same numbers to their tasks, which ends them.
    """
    from ray import actor
    from ray._raylet import ActorClassID

    drawn_by_ray, actor.ActorClassID = (
        actor.ActorClassID,
        SimpleNamespace(from_random=lambda: ActorClassID(os.urandom(ActorClassID.size()))),
    )
    try:
        import_serve()
        for name in PRELOADED:
            importlib.import_module(name)
    finally:
        actor.ActorClassID = drawn_by_ray


def draws_alike() -> bool:
    """Whether any generator of random numbers goes on in the same way in two copies of this process."""
    first, second = _drawn_in_a_copy(), _drawn_in_a_copy()
    return len(first) != DRAWN or len(second) != DRAWN or not first.isdisjoint(second)


def _drawn_in_a_copy() -> set[str]:
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            drawn = [*_draws()]
            thread = threading.Thread(target=lambda: drawn.extend(_draws()))
            thread.start()
            thread.join()
            os.write(writing, json.dumps(drawn).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as drawn_there:
        return set(json.loads(drawn_there.read() or b"[]"))


def _draws() -> Iterator[str]:
    """From each generator that workers use, numbers that two processes do not share by chance."""
    from ray._raylet import WorkerID
    from uuid_utils.compat import uuid7

    yield WorkerID.from_random().hex()
    yield uuid7().hex[-12:]
    yield str(random.getrandbits(64))
    yield uuid4().hex


DRAWN = 8
"""Numbers that a copy draws: four in its first thread, and as many in another."""


def fork_until_left(door: socket.socket) -> Request | None:
    """Fork a worker for each request. Returns the request in a worker, and None here once `demur up` has gone."""
    while True:
        ready, _, _ = select.select([door.fileno(), STDIN], [], [])
        if STDIN in ready:
            return None
        asking, _ = door.accept()
        with asking, suppress(OSError, ValueError):  # who asks has ended meanwhile, and Ray will ask again
            if user_of_peer(asking) != os.geteuid():  # its folder lets nobody else in, and this does not rest on that
                continue
            asking.settimeout(ASK_SECONDS)
            files: list[int] = []
            pid = 1
            try:
                asked = _request(asking, files)
                if not _is_waited_for(asking):
                    continue
                pid = os.fork()
                with suppress(OSError):  # the other of the two was first
                    os.setpgid(pid, pid)  # Ray kills the group of a worker that has ended, and all that is in it
                if pid == 0:
                    return asked
                asking.sendall(str(pid).encode())
            finally:
                if pid:
                    for number in files:
                        os.close(number)


def _request(asking: socket.socket, files: list[int]) -> Request:
    """What is asked for. The files that come with it are added to `files` first: they are open, whatever follows."""
    files += socket.recv_fds(asking, ONE_BYTE, FILES)[1]
    with asking.makefile("rb") as rest:
        told = json.load(rest)
    return Request(**told, files=files)


def _is_waited_for(asking: socket.socket) -> bool:
    """Whether who asked is still there. Else they have run the worker themselves, and Ray would get it twice."""
    looking = select.poll()
    looking.register(asking, 0)  # that the other end is closed is always told
    return not looking.poll(0)


def become(asked: Request) -> None:
    """Run the worker in this process, which was just forked, as if it had been started by itself."""
    for standard, number in enumerate(asked.files):
        os.dup2(number, standard)
        os.close(number)
    os.environ.clear()
    os.environ.update(asked.environment)
    os.chdir(asked.folder)
    with suppress(OSError):  # to lower it is not allowed
        Path(OOM_SCORE).write_text(asked.oom_score)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, asked.blocked)
    np.random.seed()  # else all workers would draw the same from the generator that all of numpy shares
    sys.argv = asked.words
    runpy.run_path(asked.words[0], run_name="__main__")


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for a worker
    with socket.socket(fileno=int(sys.argv[1])) as door:
        gc.disable()
        import_for_hosts(sys.argv[2:])
        os.environ["RAY_RAYLET_PID"] = os.read(STDIN, ONE_NUMBER).decode()
        if not os.environ["RAY_RAYLET_PID"]:
            return  # `demur up` has gone
        preload()
        if draws_alike():
            raise SystemExit("demur: workers cannot be forked with this version of Ray; it starts them one by one")
        gc.collect()
        gc.freeze()  # so that a collection in a worker leaves the shared pages as they are
        gc.enable()
        asked = fork_until_left(door)
    if asked is not None:
        become(asked)


if __name__ == "__main__":
    main()
