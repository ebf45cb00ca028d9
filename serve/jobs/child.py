"""Work in a process of its own, so that pages stay quick and what it takes goes with it."""

import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

log = logging.getLogger("demur.jobs")

LOST = 3
"""Exit status of a child whose work another process has taken."""

LONGEST_ERROR = 500


def command_of(module: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules; nothing in the current folder can take its place."""
    return (sys.executable, "-P", "-m", module)


def run_child(command: Sequence[str], told: Mapping[str, Any], *, seconds: float, late: str) -> str | None:
    """Run a child that is told what to do as a line of JSON on its standard input, and return what went wrong.

    None: nothing did, or it is another's business by now. The last line of its standard error is the reason. After so
    many `seconds` it is killed, and the reason is `late`. It ends when this process ends: its input is closed then.
    """
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(told).encode() + b"\n")
            process.stdin.flush()  # and it stays open
            process.wait(seconds)
        except BrokenPipeError:
            process.wait()
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return late
        finally:
            with suppress(BrokenPipeError):
                process.stdin.close()
        if process.returncode in (0, LOST):
            return None
        said.seek(0)
        words = said.read().decode(errors="replace").strip()
    if words:
        log.warning("%s", words)
    last = words.splitlines()[-1] if words else ""
    return last[:LONGEST_ERROR] or f"the process that did it ended with status {process.returncode}"


def told_to_child() -> Any:
    """In a child: return what it was told, and end when whoever started it ends."""
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    os.nice(10)
    return told


def in_one_line(error: Exception) -> str:
    """In a child: an error as its last word."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _end_with_the_input() -> None:
    while sys.stdin.read(4096):
        pass
    os._exit(1)
