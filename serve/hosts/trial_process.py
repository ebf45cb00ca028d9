"""Work on files and code of others in a process of its own. They can end a process, fill its memory or never come back;
whoever asks for the work only learns that they did."""

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, NoReturn

import psutil

from demur.serve.contract.printable import printable
from demur.serve.contract.user_code import in_words
from demur.serve.hosts.kind import BadModel

SECONDS = 100.0
"""That the work may take: less than `demur up` waits for it."""

MOST_OF_FREE_MEMORY = 0.8

LOOK_SECONDS = 0.02
"""How often it is looked how much memory the process has."""

LONGEST = 2000
"""Characters of a complaint."""

MOST_FOUND = 2**20
"""Bytes that the process may say through the pipe. Code of others may write to it as well."""

LAST_WORDS = 300

LAST_WORDS_SECONDS = 1.0
"""How long to wait for them once the process has ended."""

ADDRESS = "DEMUR_TRIAL_PIPE"
"""The environment variable with the number of the pipe through which the process says what it found."""


@dataclass(frozen=True)
class TrialLimits:
    """What the work may take."""

    seconds: float = SECONDS
    bytes: int = field(default_factory=lambda: int(MOST_OF_FREE_MEMORY * psutil.virtual_memory().available))


class ProcessEnded(RuntimeError):
    """The process ended, or was ended, before its work was done. The message says how, as a predicate."""


def done_apart(module: str, told: Any, limits: TrialLimits | None = None) -> Any:
    """Return what the module makes of what it is told: both are JSON. It is run as a program that calls `answer_with`.

    Raises `BadModel` where the work does, and `ProcessEnded`.
    """
    with TrialProcess(module, json.dumps(told).encode(), limits or TrialLimits()) as process:
        how = process.wait()
        found = process.found()
        if found is None:
            last = process.last_words()
            raise ProcessEnded(f"{how} (it said: {last})" if last else how)
    if "wrong" in found:
        raise BadModel(found["wrong"])
    if "failed" in found:
        raise ProcessEnded(f"cannot be tried ({found['failed']})")
    return found["right"]


def answer_with(work: Callable[[Any], Any]) -> NoReturn:
    """In the process: do the work on what the first line of the input says, and tell what comes of it."""
    told = sys.stdin.readline()
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * SECONDS), int(2 * SECONDS)))  # whatever holds that thread
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = int(os.environ.pop(ADDRESS))
    os.set_inheritable(pipe, False)
    try:
        found = {"right": work(json.loads(told))}
    except BadModel as error:
        found = {"wrong": str(error)[:LONGEST]}
    except BaseException as error:
        found = {"failed": in_words(error)}
    with open(pipe, "w", encoding="ascii") as said:
        said.write(json.dumps(found) + "\n")
    os._exit(0)  # and not the way that the code of others has prepared


class TrialProcess:
    """The process of one work."""

    def __init__(self, module: str, told: bytes, limits: TrialLimits) -> None:
        self._module, self._told, self._limits = module, told, limits
        self._said, self._found = bytearray(), bytearray()

    def __enter__(self) -> "TrialProcess":
        self._reading, writing = os.pipe()
        os.set_blocking(self._reading, False)  # what the process started may keep it open
        paths = os.pathsep.join(path for path in sys.path if path)
        try:
            self._process = subprocess.Popen(
                (sys.executable, "-P", "-m", self._module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", ADDRESS: str(writing)},
                pass_fds=(writing,),
                start_new_session=True,
            )
        finally:
            os.close(writing)
        assert self._process.stdin
        assert self._process.stdout
        self._listening = threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True)
        self._listening.start()
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._told + b"\n")
            self._process.stdin.flush()  # and it stays open: the process ends when this one does
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # and what it started
        self._process.wait()
        self._listening.join(LAST_WORDS_SECONDS)
        os.close(self._reading)
        with suppress(BrokenPipeError):
            assert self._process.stdin
            self._process.stdin.close()

    def wait(self) -> str:
        """Return how the process ended, which is killed where it takes too much."""
        until = time.monotonic() + self._limits.seconds
        memory = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            self._read()
            if time.monotonic() > until:
                return f"was not ready after {self._limits.seconds:g} s"
            with suppress(psutil.Error):
                if memory.memory_info().rss > self._limits.bytes:
                    return (
                        f"took more than {self._limits.bytes / 2**30:.1f} GiB of memory while it was tried, and this"
                        " machine has no more to spare"
                    )
            time.sleep(LOOK_SECONDS)
        code = self._process.returncode
        by = f"signal {-code}, {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return f"ended the process in which it was tried ({by})"

    def found(self) -> dict[str, Any] | None:
        """What the process told; None where it ended before that, or where something else was written."""
        self._read()
        try:
            found = json.loads(self._found) if self._found.endswith(b"\n") else None
        except ValueError:
            return None
        return found if isinstance(found, dict) and found.keys() & {"right", "wrong", "failed"} else None

    def _read(self) -> None:
        with suppress(BlockingIOError):
            while len(self._found) <= MOST_FOUND and (part := os.read(self._reading, 2**16)):
                self._found += part

    def last_words(self) -> str:
        """The last line that was printed. What the process started may hold the other end, so that is waited for no
        longer than a moment."""
        self._listening.join(LAST_WORDS_SECONDS)
        lines = bytes(self._said).decode(errors="replace").strip().splitlines()
        return printable(lines[-1].strip())[:LAST_WORDS] if lines else ""

    def _listen(self, lines: IO[bytes]) -> None:
        with lines:
            while part := os.read(lines.fileno(), 2**16):
                self._said = (self._said + part)[-8 * LAST_WORDS :]


def _end_with_the_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)
