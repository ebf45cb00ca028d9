"""A private folder for a Ray of this machine, and a reaper that clears away after it."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from demur.serve.local import reaper
from demur.serve.local.environment import set_environment
from demur.serve.local.run_folder import RunFolder, make_run_folder

REAPER_SECONDS = 20.0


@contextmanager
def private_run(data: Path | None = None) -> Iterator[tuple[RunFolder, Sequence[str]]]:
    """Make a private folder, lead the environment to it, and yield it with the command of its reaper.

    The reaper waits until this process lets go of it, or is killed. It then ends all that was started, removes the
    folder, and stops the embedded database under `data` if nobody else uses it. Where a Ray is to be joined, at
    RAY_ADDRESS, the environment stays as it is: whoever started that Ray has chosen.
    """
    folder = make_run_folder()
    command = [sys.executable, "-I", "-S", reaper.__file__, str(folder.path), str(data or "")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        if "RAY_ADDRESS" not in os.environ:
            set_environment(folder)
        yield folder, command
    finally:
        with suppress(OSError, subprocess.TimeoutExpired):
            process.communicate(timeout=REAPER_SECONDS)
