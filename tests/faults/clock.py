"""A wall clock that can be set, for the processes that are started under it: clock.c, built by the compiler at hand."""

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

SOURCE = Path(__file__).with_suffix(".c")

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


class Clock:
    """The wall clock of some processes. Their monotonic one stays as it is, as where the clock of a machine is set."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file, self._library = folder / name, folder / "clock.so"
        self.set(hours=0)
        if not self._library.exists():
            assert COMPILER
            subprocess.run([COMPILER, "-shared", "-fPIC", "-O2", "-o", self._library, SOURCE, "-ldl"], check=True)

    def set(self, *, hours: float) -> None:
        """Let it run so far before the machine's, from now on."""
        if not self._file.exists():
            self._file.write_bytes(bytes(8))
        with self._file.open("r+b") as file:  # the same file, since it is mapped
            file.write(struct.pack("=q", round(3600 * hours)))

    @contextmanager
    def ruling(self) -> Iterator[None]:
        """Whatever is started inside, and what that starts, goes by this clock for as long as it runs."""
        with patch.dict(os.environ, {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._file)}):
            yield
