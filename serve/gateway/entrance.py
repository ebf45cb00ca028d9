"""The first thing that a request meets: whether there is room for it, before anything of it is read."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from serve.chat.errors import problem_of as problem_of_openai
from serve.errors import problem_json, retry_after
from serve.gateway.batching import Overloaded
from serve.inference_protocol.errors import problem_of as problem_of_inference
from serve.wire import dump

ALWAYS_OPEN = frozenset({"/healthz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Whoever looks after this service must not take a full one for a dead one."""

LOOK_SECONDS = 0.02


class Room:
    """Room for so many requests at a time, whichever way they come in."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._open = 0
        self._closed = False

    def enter(self) -> None:
        """Take a place, which is given back with `leave`; raises `Overloaded` where there is none."""
        if self._closed:
            raise Overloaded("this service is about to stop; ask again in a while")
        if self._open >= self._most:
            raise Overloaded(f"{self._open:,} requests are open here already; try again a little later")
        self._open += 1

    def leave(self) -> None:
        self._open -= 1

    async def close(self, seconds: float) -> int:
        """Let nobody in any more, and come back when the last one has left, or after so many seconds; return how many
        are still inside."""
        self._closed = True
        deadline = asyncio.get_running_loop().time() + seconds
        while self._open and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(LOOK_SECONDS)
        return self._open


class Entrance:
    """Lets requests in as long as there is room. Whoever comes then is told so at once, with its body unread.

    A request that waits for an outcome has a bound of its own (`OutcomeWatch`) and is not counted here.
    """

    def __init__(self, app: ASGIApp, room: Room) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_always_open(scope["path"]) or _waits(scope):
            await self._app(scope, receive, send)
            return
        try:
            self._room.enter()
        except Overloaded as error:
            await _refuse(scope["path"], send, error)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._room.leave()


def _is_always_open(path: str) -> bool:
    return path in ALWAYS_OPEN or path.startswith("/healthz/")


def _waits(scope: Scope) -> bool:
    return scope["method"] == "GET" and b"wait=" in scope["query_string"]


async def _refuse(path: str, send: Send, error: Overloaded) -> None:
    body = dump(_told(path, error))
    headers: list[Any] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(retry_after(error) or 1).encode()),
    ]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _told(path: str, error: Overloaded) -> dict[str, Any]:
    """What is wrong, in the shape that clients of this address expect."""
    if path.startswith("/v2"):
        return problem_of_inference(error)[1]
    if path.startswith("/v1/chat/"):
        return problem_of_openai(error)[1]
    return {"error": problem_json(error)}
