"""Our own log, as text for people or as one JSON object in each line, with the id of the request that it is about."""

import io
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

from demur.serve.config.telemetry import LogKind
from demur.serve.contract.printable import one_line, printable
from demur.serve.telemetry.request_context import VISIT

PREFIX = re.compile(r"(\x1b\[[0-9;]*m)*+\((?=[^()]*pid=\d)[^()]*+\)(\x1b\[[0-9;]*m)*+ ")
"""What Ray puts before the lines of other processes."""

REQUESTS = "request_ids"
"""An extra of lines that are about several requests at a time."""

ACCESS = ("method", "path", "status", "milliseconds")


def log_to_stderr(kind: LogKind) -> None:
    """Write our own log to standard error, from where Ray brings it to the terminal of `demur up` and its files."""
    ours = logging.getLogger("demur")
    handler = logging.StreamHandler(sys.__stderr__)  # Serve puts its own log, kept quiet, in the place of sys.stderr
    handler.setFormatter(JsonLines() if kind == "json" else TextLines())
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False


class _Formatter(logging.Formatter):
    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is logging's
        """Return a traceback. logging prints it first, and in a replica `print` is Ray's, which writes tuples."""
        return "".join(traceback.format_exception(*ei)).rstrip("\n")


class TextLines(_Formatter):
    """A level, a sentence, and the id of the request where it is about one."""

    def format(self, record: logging.LogRecord) -> str:
        ids = requests_of(record)
        about = f" [request {', '.join(ids)}]" if ids else ""
        said = f"{record.levelname} {one_line(record.getMessage())}{about}"
        return f"{said}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else said


class JsonLines(_Formatter):
    """One object for each line: time, level, logger, message, and what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        ids = requests_of(record)
        if len(ids) == 1:
            line["request_id"] = ids[0]
        elif ids:
            line[REQUESTS] = ids
        if (visit := VISIT.get()) and visit.trace_id:
            line["trace_id"] = visit.trace_id
        line |= {name: getattr(record, name) for name in ACCESS if hasattr(record, name)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def about(visits: Iterable[Any]) -> dict[str, list[str]]:
    """The `extra` of a line about several requests; each is told once."""
    return {REQUESTS: list(dict.fromkeys(visit.request_id for visit in visits if visit))}


def requests_of(record: logging.LogRecord) -> list[str]:
    """Ids of the requests that a line is about."""
    told: list[str] | None = getattr(record, REQUESTS, None)
    if told is not None:
        return told
    visit = VISIT.get()
    return [visit.request_id] if visit else []


class JsonStream(io.TextIOBase):
    """A stream on which every line is a JSON object: what is one already stays, without Ray's prefix; the rest is
    wrapped as a message."""

    def __init__(self, stream: TextIO, logger: str) -> None:
        self._stream = stream
        self._logger = logger
        self._begun: list[str] = []

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._begun.append(text)
        if "\n" not in text:
            return len(text)
        *lines, begun = "".join(self._begun).split("\n")
        self._begun = [begun]
        for line in lines:
            if line.strip():
                self._stream.write(self._as_json(line) + "\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def _as_json(self, line: str) -> str:
        said = PREFIX.sub("", line, count=1) if PREFIX.match(line) else line
        try:
            if isinstance(orjson.loads(said), dict):
                return said
        except orjson.JSONDecodeError:
            pass
        told = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": "INFO",
            "logger": self._logger,
            "message": line.rstrip(),
        }
        return orjson.dumps(told).decode()
