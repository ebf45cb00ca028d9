"""Bodies of requests on their way in: how long each may take, and how many bytes of all of them are held at a time."""

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Self

from starlette.types import Message, Receive, Scope

from demur.serve.config.file import LimitsConfig
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.body import SMALL
from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway.request_limit import RequestLimit

PATIENCE_SECONDS = 10.0
"""A body that has been coming for longer comes at the least pace, and gives way where there is no room for another."""

UNFINISHED = 2**16
"""Bytes as which a body counts at least while more of it is to come: so many may lie in the buffers before us."""

QUICK_SECONDS = 0.1
"""A message over gRPC that takes longer counts as long as it may be: nobody says how much of it has come."""


class BodyTooSlow(TimeoutError):
    """The body of a request did not come in time. Send it again over a faster connection, or in smaller parts."""


class CallerLeft(ConnectionError):
    """Nobody waits for the answer any more."""


class Intake:
    """Where the bodies of a process come in. It is used from one event loop."""

    def __init__(self, limits: LimitsConfig) -> None:
        self.most = limits.body_bytes
        self.seconds, self.pace = limits.body_seconds, limits.body_bytes_per_second
        self.room = RequestLimit(
            most=limits.most_open_bytes, share=limits.share_per_key, what="bytes of bodies are held here"
        )
        self.coming: dict[Arrival, None] = {}
        """Bodies of which more is to come, the oldest first."""

    def make_room(self, arrival: "Arrival", more: int) -> None:
        """Take so many bytes for an arrival, or raise `Overloaded`. What has been coming for long gives way."""
        if self.room.why_not(arrival.owner, more):
            for other in [one for one in self.coming if one.is_slow and one is not arrival]:
                if self.room.has(more) and other.owner != arrival.owner:
                    continue  # it is their own share that is used up
                if (why := self.room.why_not(arrival.owner, more)) is None:
                    break
                other.give_way(why)
        self.room.enter(arrival.owner, more)


class Arrival:
    """The body of one request, from when it comes until the request is over. Its bytes are held that long; those of a
    small one that comes at once are not counted. Entered with `with`, in the task of the request."""

    def __init__(self, intake: Intake, owner: str) -> None:
        self.owner = owner
        self._intake = intake
        self._held = 0
        self._refused: Exception | None = None
        """Why it is read no further."""

    def __enter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._began = self._loop.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hold(0)

    @property
    def is_slow(self) -> bool:
        return self._loop.time() - self._began > PATIENCE_SECONDS

    async def over_http(self, scope: Scope, receive: Receive, *, most: int) -> Receive:
        """Read the whole body, no further than so many bytes, and return what gives it to an application. Raises
        `TooLarge`, `BodyTooSlow`, `CallerLeft`, and `Overloaded` where there is no room for its bytes."""
        if scope["method"] in ("GET", "HEAD"):
            return receive
        parts: list[bytes] = []
        size, more = 0, True
        self._wait_until(PATIENCE_SECONDS, 0)  # asyncio.timeout takes longer than everything else here
        try:
            while more:
                message: Any = await receive()
                if message["type"] == "http.disconnect":
                    raise CallerLeft("the caller went away before the body had come")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self._check(size, most)
                if more := message.get("more_body", False):
                    if len(parts) == 1:
                        self._check(_announced(scope), most)
                    self._goes_on(size)
        except asyncio.CancelledError:
            self._tell_refusal()
            raise
        finally:
            self._ends()
        self._hold(size if size > SMALL else 0)
        return _given_once(parts[0] if len(parts) == 1 else b"".join(parts), receive)

    async def over_grpc(self, coming: Awaitable[bytes]) -> bytes:
        """The whole message, of which the library sees to it that it is not too long. Raises `BodyTooSlow`, and
        `Overloaded` where there is no room for its bytes."""
        self._timer = self._loop.call_later(QUICK_SECONDS, self._may_be_long)
        try:
            message = await coming
        except asyncio.CancelledError:
            self._tell_refusal()
            raise
        finally:
            self._ends()
        self._hold(len(message) if len(message) > SMALL else 0)
        return message

    def give_way(self, why: str) -> None:
        """Give the bytes back now, and be read no further."""
        self._ends()
        self._hold(0)
        self._refuse(Overloaded(why))

    def _check(self, size: int, most: int) -> None:
        if size > most:
            whose = "(limits.body_bytes)" if most == self._intake.most else "of a form"
            raise TooLarge(f"the body has more than {most:,} bytes, which is what is taken {whose}")

    def _goes_on(self, size: int) -> None:
        """So much has come, and more is to come. It has the time that it may take at the least pace."""
        if self._refused is not None:  # since the last part came
            raise self._refused
        self._intake.coming[self] = None
        self._hold(max(size, UNFINISHED))
        self._timer.cancel()
        self._wait_until(PATIENCE_SECONDS + size / self._intake.pace, size)

    def _may_be_long(self) -> None:
        self._intake.coming[self] = None
        self._wait_until(self._intake.seconds, None)
        try:
            self._hold(self._intake.most)
        except Overloaded as refused:
            self.give_way(str(refused))

    def _wait_until(self, seconds: float, size: int | None) -> None:
        """Let it come for so many seconds from its beginning, or as long as any body may. So much is there by now."""
        at = self._began + min(seconds, self._intake.seconds)
        self._timer = self._loop.call_at(at, self._is_late, size)

    def _is_late(self, size: int | None) -> None:
        seconds = self._loop.time() - self._began
        why = f"the body had not come within {self._intake.seconds:g} s (limits.body_seconds)"
        if size is not None and seconds < self._intake.seconds:
            why = (
                f"{size:,} bytes of the body came in {seconds:.0f} s; after {PATIENCE_SECONDS:g} s at least"
                f" {self._intake.pace:,.0f} a second have to come (limits.body_bytes_per_second)"
            )
        self._refuse(BodyTooSlow(why))

    def _refuse(self, error: Exception) -> None:
        self._refused = error
        if self._task is not None:
            self._task.cancel()

    def _tell_refusal(self) -> None:
        """Raise why it is read no further, unless somebody else wants its task to end."""
        if self._refused is not None and self._task is not None and self._task.uncancel() == 0:
            raise self._refused from None

    def _ends(self) -> None:
        self._timer.cancel()
        self._intake.coming.pop(self, None)

    def _hold(self, wanted: int) -> None:
        if wanted > self._held:
            self._intake.make_room(self, wanted - self._held)
        elif wanted < self._held:
            self._intake.room.leave(self.owner, self._held - wanted)
        self._held = wanted


def _given_once(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that gives the body, and then whatever comes behind it."""
    told = False

    async def receive_again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _announced(scope: Scope) -> int:
    length: bytes = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(length) if length.isdigit() else 0
