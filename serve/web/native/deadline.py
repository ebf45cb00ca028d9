"""How long a caller waits: the header X-Request-Timeout, and work that is given up when that time is over.

Work that is given up is cancelled. What waited for a model or for the database is then never sent there; what had been
sent already may still end, and is told to nobody.
"""

import asyncio
import re
from collections.abc import Awaitable
from typing import TypeVar

from demur.serve.contract.inputs import InvalidRequest

T = TypeVar("T")

LONGEST_SECONDS = 3600.0

WRITTEN = re.compile(r"[0-9]{1,5}(\.[0-9]{0,6})?|\.[0-9]{1,6}")

PATTERN = rf"^({WRITTEN.pattern})$"
"""The form of the header, for the OpenAPI document."""


class DeadlinePassed(RuntimeError):
    """The time that the caller gave is over, and nothing was answered. Ask again, with an Idempotency-Key where the
    same thing must not be recorded twice."""


def seconds_of(header: str | None) -> float | None:
    """How long a caller waits by its own word, None where it does not say; raises `InvalidRequest`."""
    if header is None:
        return None
    seconds = float(header) if WRITTEN.fullmatch(header) else 0.0
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InvalidRequest(
            f"X-Request-Timeout: {header[:50]!r} is not a number of seconds above 0 and up to {LONGEST_SECONDS:g};"
            " write one such as 2.5, or leave it out"
        )
    return seconds


async def within(seconds: float | None, work: Awaitable[T]) -> T:
    """Return what some work comes to, or raise `DeadlinePassed` as soon as the time is over."""
    if seconds is None:
        return await work
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise DeadlinePassed(
            f"the {seconds:g} s of X-Request-Timeout are over, and nothing was answered; nor was anything recorded,"
            " unless it was being written at that moment: an Idempotency-Key makes asking again safe"
        ) from None
