"""HTTP to one server that somebody else runs: in time, in bounds, and in words where it fails."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from demur.serve.contract.engine import EngineFailed
from demur.serve.contract.printable import printable
from demur.serve.hosts.checkpoint import first_line
from demur.serve.hosts.outages import EndpointAway, pause
from demur.uncertainty.generation import Outage

CONNECT_SECONDS = 10.0
MOST_OF_AN_ERROR = 64 * 2**10
"""Bytes of a reply that says what is wrong; what follows is not read."""

SHOWN = 80
"""Characters of a reply that nobody can read, which are shown."""

T = TypeVar("T")


@dataclass(frozen=True)
class TimeLimit:
    """Until when something must be done, in the time of the running loop, and how many seconds that was in all."""

    seconds: float
    deadline: float

    @classmethod
    def of(cls, seconds: float) -> "TimeLimit":
        """From now on."""
        return cls(seconds, asyncio.get_running_loop().time() + seconds)


class TooLong(EngineFailed):
    """The server sent more than a reply can have, and no more of it was read."""


class EndpointHttp:
    """Sends requests to one server. Redirects are not followed: inputs go where the configuration says."""

    def __init__(
        self,
        address: str,
        *,
        headers: Mapping[str, str],
        secrets: Sequence[str] = (),
        concurrency: int,
        verify: ssl.SSLContext | bool = True,
    ) -> None:
        """`secrets` are shown to nobody, although some servers repeat them. `verify` says whose certificates are
        trusted."""
        self.address = address
        self._secrets = secrets
        self._client = httpx.AsyncClient(
            headers={
                "Content-Type": "application/json",
                "Accept-Encoding": "identity",  # a compressed reply could be of any size
                **headers,
            },
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None),
            verify=verify,
        )
        self.slots = asyncio.Semaphore(concurrency)

    async def close(self) -> None:
        await self._client.aclose()

    async def in_time(self, limit: TimeLimit, retries: int, send: Callable[[], Awaitable[T]]) -> T:
        """Return what `send` returns, within the limit in all and with one of the few slots. Where it raises
        `EndpointAway`, and that passes, it is called again, up to `retries` times, after the time that the server names
        or one that grows."""
        async with self.until(limit), self.slots:
            return await self.tried(limit, retries, send)

    async def tried(self, limit: TimeLimit, retries: int, send: Callable[[], Awaitable[T]]) -> T:
        """Do as `in_time` does, for a caller that has a slot and keeps the time."""
        tries = 0
        while True:
            tries += 1
            try:
                return await send()
            except EndpointAway as away:
                wait = pause(tries, away.outage.retry_after)
                late = asyncio.get_running_loop().time() + wait >= limit.deadline
                if not away.outage.passes or tries > retries or late:  # who has no time to wait is told at once
                    raise
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def until(self, limit: TimeLimit) -> AsyncIterator[None]:
        """Raise `EndpointAway` where something takes longer."""
        try:
            async with asyncio.timeout_at(limit.deadline):
                yield
        except TimeoutError:
            raise self.away(f"gave no whole reply within {limit.seconds:.3g} s", passes=True) from None

    async def opened(
        self, method: str, url: str, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Return a response of any status, of which nothing has been read but its head. Raises `EndpointAway`."""
        request = self._client.build_request(method, url, content=content, headers=headers)
        try:
            return await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise self.unreachable(error) from None

    async def body(self, response: httpx.Response, most: int) -> bytes:
        """Return a body of at most so many bytes. Raises `TooLong`, or `EndpointAway` where it breaks off."""
        parts = [part async for part in self.parts(response, most)]
        return b"".join(parts)

    async def error_of(self, response: httpx.Response) -> Any:
        """Return what a response says that is an error: JSON, or the beginning of its text. Closes it."""
        try:
            said = await self.body(response, MOST_OF_AN_ERROR)
        except TooLong:
            said = b""
        finally:
            await response.aclose()
        return content_of(said)

    async def parts(self, response: httpx.Response, most: int) -> AsyncGenerator[bytes, None]:
        """Yield a body as it comes; raises as `body` does."""
        if (coding := response.headers.get("content-encoding", "identity")) != "identity":
            raise self.away(f"sent a reply in the encoding {coding[:SHOWN]!r}, which was not asked for", passes=False)
        size = 0
        try:
            async for part in response.aiter_raw():
                size += len(part)
                if size > most:
                    raise TooLong(f"{self.address} sent more than {most:,} bytes, which no reply of this length has")
                yield part
        except httpx.TransportError as error:
            raise self.unreachable(error, "broke off in the middle of a reply") from None

    def check_no_page(self, response: httpx.Response, content: bytes, *, setting: str) -> None:
        """Raise `EndpointAway` where a web page came; `setting` is the key to look at."""
        kind = media_type(response)
        if "html" in kind or content.lstrip()[:1] == b"<":
            what = "answered with a web page"
            why = f"{what} ({kind}, which begins {self.shown(content)}); see whether {setting} is right"
            raise self.away(what, why, passes=False)

    def told(self, said: str) -> str:
        """What a server said, in one line, without our secrets, which some repeat, and without what no log can show."""
        line = " ".join(said.encode("utf-8", "replace").decode().split())
        for secret in self._secrets:
            line = line.replace(secret, "(the key)")
        return printable(line)

    def shown(self, content: bytes) -> str:
        """The beginning of what came, in quotes."""
        return repr(self.told(content[: 4 * SHOWN].decode(errors="replace"))[:SHOWN])

    def unreachable(self, error: httpx.TransportError, what: str = "cannot be reached") -> EndpointAway:
        detail = self.told(first_line(error)) or type(error).__name__
        return self.away(what, f"{what}: {detail[:300]}", passes=True)

    def away(self, what: str, why: str = "", *, passes: bool, seconds: float | None = None) -> EndpointAway:
        whole = f"{self.address} {why or what}"
        return EndpointAway(Outage(what=what, why=whole, passes=passes, retry_after=seconds))


def content_of(said: bytes) -> Any:
    """The JSON that came, or else the beginning of the text."""
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said[:1000].decode(errors="replace")


def media_type(response: httpx.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.split(";")[0].strip().lower()[:SHOWN]
