"""Processes that the kernel ended because the machine, or the container, ran out of memory."""

from contextlib import suppress
from pathlib import Path

COUNTERS = Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat")
"""Of the container where it has one, else of the machine. Each has a line with `oom_kill` and a number."""


class MemoryWatch:
    """Looks whether the kernel has ended processes for want of memory. It does not say whose they were."""

    def __init__(self, counters: tuple[Path, ...] = COUNTERS) -> None:
        self._counters = counters
        self._known = self._count()

    def ended(self) -> int:
        """How many processes since the last look."""
        before, self._known = self._known, self._count()
        return max(0, self._known - before)

    def _count(self) -> int:
        for path in self._counters:
            with suppress(OSError, ValueError):
                for line in path.read_text(encoding="ascii").splitlines():
                    name, _, value = line.partition(" ")
                    if name == "oom_kill":
                        return int(value)
        return 0
