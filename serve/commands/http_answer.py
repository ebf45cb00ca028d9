"""What an address answers to GET, within a time and a size."""

import json
import re
import time
from typing import Any

import httpx

SECONDS = 10.0
"""For each address."""

MOST_BYTES = 10_000_000
"""Of an answer that are read."""


class NoAnswer(RuntimeError):
    """An address does not answer. The message says why."""


def answer_of(url: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """Return the status and the body of an answer. Raises `NoAnswer`, also where it has no end."""
    deadline, body = time.monotonic() + SECONDS, b""
    try:
        with httpx.stream("GET", url, headers=headers, timeout=SECONDS) as answer:
            for block in answer.iter_bytes():
                body += block
                if len(body) > MOST_BYTES or time.monotonic() > deadline:
                    raise NoAnswer("answers without end")
            return answer.status_code, body
    except httpx.TimeoutException:
        raise NoAnswer(f"gives no answer within {SECONDS:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoAnswer(f"cannot be reached: {_reason(error)}") from None


def as_json(body: bytes) -> Any:
    """Return what a body holds; None where that is no JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _reason(error: Exception) -> str:
    """Without the numbers that systems give to errors."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error).split("\n")[0]) or type(error).__name__
