"""What became of the rows of a file, as they come: a file that a second run of the command goes on with."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

ENDING = ".unfinished"


class RunDiffers(ValueError):
    """A run that was begun is of another file, or another command. Finish it as it was begun, or remove its file."""


class RunGoesOn(RuntimeError):
    """Another process works on the same file of results."""


class ResultLog:
    """Results of rows, in their order, beside the settings with which they were begun."""

    def __init__(self, path: Path, file: BinaryIO, settings: Mapping[str, Any], rows: int) -> None:
        self.path = path
        self._file = file
        self.settings = settings
        self.rows = rows
        """How many rows are done."""

    @property
    def run(self) -> str:
        """The name of the run, which is a part of its Idempotency-Keys."""
        return str(self.settings["run"])

    def append(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Write the results of the next rows."""
        lines = b"".join(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for one in results)
        self._file.write(lines)
        self._file.flush()
        self.rows += len(results)

    def results(self) -> Iterator[dict[str, Any]]:
        """Yield what is written, row by row."""
        with self.path.open("rb") as file:
            file.readline()
            for line in file:
                yield json.loads(line)

    def close(self) -> None:
        """Let another process go on with it."""
        self._file.close()

    def remove(self) -> None:
        """Delete it: what it holds is elsewhere."""
        self.path.unlink(missing_ok=True)


def open_log(out: Path, settings: Mapping[str, Any], run: str | None) -> ResultLog:
    """Begin a run whose results go to `out` in the end, or go on with one. `run` is its name; None for a new one.

    The name is on disk before anything is asked, so whatever stops the run, it goes on under the same keys. What was
    cut off in the middle of a row is taken away. Raises `RunDiffers` where other settings began it.
    """
    path = out.with_name(out.name + ENDING)
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunGoesOn(f"another demur writes to {path}; wait until it has ended") from None
        begun = _settings_of(path, file.readline())
        rows = 0 if begun is None else _whole_rows(file)
        other = [] if begun is None else _differences(begun, {**settings, "run": run or begun["run"]})
        if begun is None or (other and not rows):  # what was begun has come to nothing
            begun = {**settings, "run": run or uuid4().hex}
            file.seek(0)
            file.truncate()
            file.write(json.dumps(begun).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        elif other:
            raise RunDiffers(
                f"{path} was begun with other settings ({', '.join(other)}); finish that run with them, or remove the"
                " file to begin anew"
            )
        file.truncate()
    except BaseException:
        file.close()
        raise
    return ResultLog(path, file, begun, rows)


def _settings_of(path: Path, line: bytes) -> dict[str, Any] | None:
    """What a run was begun with; None where it had not come so far as to write that."""
    if not line.endswith(b"\n") and line[:1] in (b"", b"{"):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not isinstance(told.get("run"), str):
        raise RunDiffers(
            f"{path} is not what an unfinished run has left; remove it, or name another file for the results"
        )
    return told


def _differences(begun: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    return [name for name in {**begun, **wanted} if begun.get(name) != wanted.get(name)]


def _whole_rows(file: BinaryIO) -> int:
    """How many rows are whole; the file then stands behind the last of them."""
    rows, end = 0, file.tell()
    for line in file:
        try:
            told = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            told = None
        if not isinstance(told, dict) or told.get("row") != rows + 1:
            break
        rows, end = rows + 1, end + len(line)
    file.seek(end)
    return rows
