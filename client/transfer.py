"""What threads and coroutines share when a request is sent with httpx: its headers, its time limits, its reply."""

import math
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx

from demur.client.address import Address
from demur.client.errors import BadReply, DemurError, TimedOut, Unreachable, readable
from demur.client.steps import Reply, Send

GRACE = 2.0
"""Seconds by which the service's own word that the time is over may come after it."""

CONNECT = 10.0
SILENCE = 120.0
"""Seconds without a byte after which a reply without a deadline is given up."""

LONGEST_TOLD = 3600.0
"""Seconds; the service waits for nothing longer."""

MOST_BYTES = 64 * 2**20
"""Of a reply that is kept in memory."""

TROUBLE = (httpx.TransportError, httpx.DecodingError)
"""What httpx raises where there is no reply, or none that can be read."""


def base_headers(address: Address, name: str | None) -> dict[str, str]:
    """What is sent with every request."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "demur"}
    if address.key is not None:
        headers["Authorization"] = f"Bearer {address.key}"
    if name is not None:
        headers["X-Demur-Reviewer"] = quote(name)
    return headers


def request_of(http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
    """The request of a step."""
    call = step.call
    headers: dict[str, str] = {}
    if call.content is not None:
        headers["Content-Type"] = "application/json"
    if call.key is not None:
        headers["Idempotency-Key"] = call.key
    if call.tells_deadline and step.seconds <= LONGEST_TOLD:
        headers["X-Request-Timeout"] = f"{max(0.001, step.seconds):.3f}"
    if call.to is not None:
        headers["Accept"] = "*/*"
    seconds = step.seconds + GRACE if math.isfinite(step.seconds) else SILENCE
    return http.build_request(
        call.method,
        call.path,
        params=call.params or None,
        content=call.content,
        headers=headers,
        timeout=httpx.Timeout(seconds, connect=min(CONNECT, seconds)),
    )


class ReplyReader:
    """A reply on its way: kept in memory, or written where the call says."""

    def __init__(self, step: Send, response: httpx.Response, clock: Callable[[], float]) -> None:
        self._step = step
        self._clock = clock
        self._status = response.status_code
        self._headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._to = step.call.to if response.status_code in step.call.takes else None
        self._parts: list[bytes] = []
        self._size = 0
        if self._to is not None:
            self._to.seek(0)
            self._to.truncate()

    def take(self, part: bytes) -> None:
        """Take the next bytes of the body."""
        if self._clock() > self._step.deadline + GRACE:
            raise httpx.ReadTimeout("the reply did not end in time")
        if self._to is not None:
            self._to.write(part)
            return
        self._size += len(part)
        if self._size > MOST_BYTES:
            raise BadReply(f"{self._step.call.path}: the reply has more than {MOST_BYTES:,} bytes, and was not read on")
        self._parts.append(part)

    def reply(self) -> Reply:
        return Reply(status=self._status, headers=self._headers, content=b"".join(self._parts))


def no_reply(error: Exception, shown: str) -> DemurError:
    """What it means that httpx raised one of `TROUBLE`."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Unreachable(f"no service answers at {shown} ({_why(error)}); start it, or correct the address")
    if isinstance(error, httpx.ProxyError | httpx.UnsupportedProtocol):
        return BadReply(f"{shown} cannot be asked: {_why(error)}")
    if isinstance(error, httpx.TimeoutException):
        return TimedOut(f"{shown} did not answer in time")
    return Unreachable(f"the connection to {shown} broke ({_why(error)})")


def _why(error: Any) -> str:
    return readable(str(error)[:200]) or type(error).__name__
