"""A process that clears away after `demur up`, however that ends: it ends what was started, and removes the run folder.

It waits at a pipe whose other end only `demur up` holds. When that process ends, even by SIGKILL, the pipe closes. This
file is run by itself, with nothing of demur's on the import path, so that it is small and starts at once.
"""

import fcntl
import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from typing import IO

PATIENCE_SECONDS = 10.0
"""For processes to end that were killed, and for PostgreSQL to stop in order."""

LOCK_SECONDS = 3.0
"""For `demur up` to end, once its other processes have ended."""

LOOK_SECONDS = 0.05


def processes_of(folder: str) -> list[int]:
    """Processes of a run: those to which the run folder was given, in the environment or in their command line, those
    that write to a file in it, and what they started. A process that gives itself a title, as Ray's helpers do,
    may hide the first two, and its parent may have ended before it.

    PostgreSQL is none of them, since others may use it too, and it is stopped in order.
    """
    if not os.path.isdir("/proc/self"):
        return []  # this system does not show them
    spared = (os.getpid(), os.getppid())
    running = [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and int(entry) not in spared]
    found = {pid for pid in running if _belongs(pid, folder)}
    parents = {pid: _parent(pid) for pid in running}
    while below := {pid for pid in running if parents[pid] in found and pid not in found and not is_postgres(pid)}:
        found |= below
    return sorted(found)


def _parent(pid: int) -> int:
    """The process that started it; 0 where it has ended, or waits to be buried."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
    except OSError:
        return 0
    return 0 if state == "Z" else int(parent)


def _belongs(pid: int, folder: str) -> bool:
    inside = (folder + os.sep).encode()
    for told in ("environ", "cmdline"):
        with suppress(OSError), open(f"/proc/{pid}/{told}", "rb") as file:
            if inside in file.read():
                return not is_postgres(pid)
    return _writes_in(pid, folder + os.sep) and not is_postgres(pid)


def _writes_in(pid: int, inside: str) -> bool:
    """Whether a process has opened a file below a folder to write to it. Who only reads there is none of a run."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{number}").startswith(inside):
                    with open(f"/proc/{pid}/fdinfo/{number}") as file:
                        flags = next(int(line.split()[1], 8) for line in file if line.startswith("flags:"))
                    if flags & os.O_ACCMODE != os.O_RDONLY:
                        return True
    return False


def end_run(folder: str) -> None:
    """Kill every process of a run, and remove its folder. Doing it again changes nothing."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        for pid in left:  # again and again: what is killed may just have started another
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)


def stop_database(data: str) -> None:
    """Stop an embedded PostgreSQL that nobody uses any more. Each user holds a shared lock on `postgres.users`; that of
    a `demur up` which is just ending is waited for."""
    try:
        lock = open(os.path.join(data, "postgres.users"), "a")  # noqa: SIM115 - held until the server is gone
        with open(os.path.join(data, "postgres", "postmaster.pid")) as file:
            pid = int(file.readline())
    except (OSError, ValueError):
        return  # there is none
    if not _locked(lock) or not is_postgres(pid):
        return
    with suppress(OSError):
        os.kill(pid, signal.SIGINT)  # a fast shutdown, in order
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline and is_postgres(pid):
        time.sleep(LOOK_SECONDS)


def _locked(lock: IO[str]) -> bool:
    """Take a lock for this process alone, unless others keep theirs."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
        time.sleep(LOOK_SECONDS)


def is_postgres(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            name, _, rest = file.read().rpartition(")")
            return "(postgres" in name and rest.split()[0] != "Z"
    except OSError:
        return False


def main() -> None:
    folder, data = sys.argv[1:3]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it is there for what comes after those
    sys.stdin.buffer.read()  # until `demur up` has ended, or lets go
    end_run(folder)
    if data:
        stop_database(data)


if __name__ == "__main__":
    main()
