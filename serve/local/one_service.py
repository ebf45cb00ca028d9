"""One service for one folder: a lock that the kernel lets go of, however the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from demur.serve.local.reaper import end_run
from demur.serve.local.run_folder import RunFolder, is_run_folder
from demur.serve.local.service import CannotStart, Say


class DataFolderGone(RuntimeError):
    """The folder of the database was deleted or replaced while the service used it. What was in it is lost; restore a
    backup, or start anew."""


class Hold:
    """The hold of this process on a data folder."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self._path = path
        self._lock = lock

    def note(self, folder: RunFolder) -> None:
        """Write down what the next start is to clear away, should this process and its reaper be killed."""
        _write(self._lock, f"{os.getpid()} {folder.path}")

    def check(self) -> None:
        """Raise `DataFolderGone` where the folder is not the one any more that was locked."""
        try:
            same = os.path.samestat(self._path.stat(), os.fstat(self._lock.fileno()))
        except OSError:
            same = False
        if not same:
            raise DataFolderGone(
                f"{self._path.parent} was deleted or replaced while the service used it, so nothing can be kept any"
                " more; restore a backup with `demur restore`, or start anew"
            )


@contextmanager
def only_one(data: Path, say: Say) -> Iterator[Hold]:
    """Hold a data folder for this service alone, and end what a killed one before has left running.

    Raises `CannotStart` where another service holds it.
    """
    data.mkdir(parents=True, exist_ok=True)
    path = data / "demur.lock"
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotStart(
                f"a demur (pid {_last_run(lock)[0]}) is already running on {data};"
                " stop it, or set `data` to another folder"
            ) from None
        pid, folder = _last_run(lock)
        if pid:
            say(f"the last run (pid {pid}) was not stopped cleanly; what it acknowledged is on record")
        if folder and is_run_folder(Path(folder)):
            end_run(folder)
        _write(lock, str(os.getpid()))
        try:
            yield Hold(path, lock)
        finally:
            _write(lock, "")


def _last_run(lock: IO[str]) -> tuple[str, str]:
    """The pid and the run folder that the last process has written down; empty where it has cleared away itself."""
    lock.seek(0)
    pid, _, folder = lock.read().strip().partition(" ")
    return pid, folder


def _write(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
