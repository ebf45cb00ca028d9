"""Work that takes its time, for callers who may go away before it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")

CLIENT_CLOSED_REQUEST = 499
"""What nobody receives any more; it is seen in logs."""


class CallerGone(ConnectionError):
    """The caller has closed the connection, and nobody receives an answer."""


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work. Once the body has been read, the work is given up when the caller goes away:
    then this raises `CallerGone`."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise CallerGone("the caller went away before there was an answer")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    """Come back when the caller has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
