"""The processor time of a PostgreSQL: of one of its processes, and of all that are alive."""

from collections.abc import Mapping
from pathlib import Path

import psutil


def spent_by(pid: int) -> float:
    """Return the seconds that a process of one thread has spent, to the nanosecond where the kernel tells them; none if
    it has ended."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return times.user + times.system


def spent_by_server(folder: Path) -> dict[int, float]:
    """Return the same for each process of the PostgreSQL server whose data lies under this folder."""
    (pid_file,) = folder.rglob("postmaster.pid")
    postmaster = psutil.Process(int(pid_file.read_text().split()[0]))
    pids = [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]
    return {pid: spent_by(pid) for pid in pids}


def spent_since(before: Mapping[int, float]) -> float:
    """Return what processes have spent since then, but for those that have ended."""
    return sum(max(0.0, spent_by(pid) - seconds) for pid, seconds in before.items())
