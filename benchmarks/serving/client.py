"""A client that asks as fast as it is answered, over connections that stay open.

It spends little, so that what it takes of the machine hides little; and it runs in a process of its own.
"""

import asyncio
import json
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import numpy as np
import uvloop

END_OF_HEAD = b"\r\n\r\n"
LENGTH = b"\r\ncontent-length:"


@dataclass(frozen=True)
class Seen:
    """What one run of the client saw."""

    latencies: np.ndarray
    """[n] seconds from sending a request to the end of its answer."""

    seconds: float
    statuses: dict[int, int] = field(default_factory=dict)
    first_refusal: str = ""
    ends: np.ndarray = field(default_factory=lambda: np.empty(0))
    """[n] seconds from the start to the end of each answer."""

    @property
    def per_second(self) -> float:
        return self.statuses.get(200, 0) / self.seconds

    def milliseconds(self, percent: float) -> float:
        return float(np.percentile(self.latencies, percent)) * 1000 if len(self.latencies) else float("nan")


@dataclass(frozen=True)
class Load:
    """What is asked of whom, and how hard."""

    url: str
    bodies: Sequence[bytes]
    """Asked in turn."""

    concurrency: int
    seconds: float
    per_second: float | None = None
    """None: as fast as answers come. Else requests leave at this pace, and one that has to wait for a connection has
    been under way since it was due."""

    headers: tuple[tuple[str, str], ...] = ()


def ask(load: Load) -> Seen:
    """Ask in a process of its own, and return what it saw."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, (load,))


def run(load: Load) -> Seen:
    """Ask in this process."""
    return uvloop.run(_Asking(load).all())


class _Asking:
    def __init__(self, load: Load) -> None:
        self.load = load
        at = urlsplit(load.url)
        self.host, self.port = at.hostname or "127.0.0.1", at.port or 80
        head = f"POST {at.path} HTTP/1.1\r\nhost: {at.netloc}\r\ncontent-type: application/json\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in load.headers)
        self.requests = [f"{head}content-length: {len(body)}\r\n\r\n".encode() + body for body in load.bodies]
        self.latencies: list[float] = []
        self.ends: list[float] = []
        self.statuses: dict[int, int] = {}
        self.first_refusal = ""
        self.sent = 0

    async def all(self) -> Seen:
        loop = asyncio.get_running_loop()
        connections = []
        for _ in range(self.load.concurrency):
            _, connection = await loop.create_connection(lambda: _Connection(self), self.host, self.port)
            connections.append(connection)
        self.began = loop.time()
        self.stop = self.began + self.load.seconds
        self.free = connections
        if self.load.per_second:
            await self._paced(loop)
        else:
            for connection in list(connections):
                connection.ask(loop.time())
        await asyncio.gather(*(connection.done for connection in connections))
        seconds = loop.time() - self.began
        for connection in connections:
            connection.transport.close()
        return Seen(np.array(self.latencies), seconds, self.statuses, self.first_refusal, np.array(self.ends))

    async def _paced(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connections take turns; one that is still busy sends as soon as it is free, its clock running."""
        assert self.load.per_second
        every, at = 1 / self.load.per_second, 0
        while (due := self.began + at * every) < self.stop:
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            connection = self.free[at % len(self.free)]
            connection.ask(due)
            at += 1
        for connection in self.free:
            connection.finish()

    def next(self) -> bytes:
        self.sent += 1
        return self.requests[(self.sent - 1) % len(self.requests)]


class _Connection(asyncio.Protocol):
    """One connection with one request under way at a time."""

    def __init__(self, asking: _Asking) -> None:
        self.asking = asking
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()
        self.waiting: list[float] = []
        self.busy = False
        self.finishing = False
        self.seen = bytearray()
        self.wanted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def ask(self, due: float) -> None:
        if self.busy:
            self.waiting.append(due)
            return
        self.busy, self.since = True, due
        self.transport.write(self.asking.next())

    def finish(self) -> None:
        self.finishing = True
        if not self.busy and not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.seen += data
        if not self.wanted:
            end = self.seen.find(END_OF_HEAD)
            if end < 0:
                return
            head = bytes(self.seen[:end]).lower()
            at = head.index(LENGTH) + len(LENGTH)
            self.wanted = end + 4 + int(head[at : (head + b"\r").index(b"\r", at)])
        if len(self.seen) >= self.wanted:
            self._answered()

    def _answered(self) -> None:
        now, asking = self.loop.time(), self.asking
        status = int(self.seen[9:12])
        asking.statuses[status] = asking.statuses.get(status, 0) + 1
        if status == 200:
            asking.latencies.append(now - self.since)
            asking.ends.append(now - asking.began)
        elif not asking.first_refusal:
            asking.first_refusal = bytes(self.seen).decode(errors="replace")[-500:]
        self.seen.clear()
        self.wanted = 0
        self.busy = False
        if self.waiting:
            self.ask(self.waiting.pop(0))
        elif asking.load.per_second is None and now < asking.stop:
            self.ask(now)
        elif (asking.load.per_second is None or self.finishing) and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self.busy and not self.done.done():
            self.done.set_exception(
                ConnectionError(f"the service closed a connection with a request under way: {error}")
            )


def json_bodies(values: Sequence[object]) -> list[bytes]:
    return [json.dumps(value, separators=(",", ":")).encode() for value in values]


def settle(seconds: float = 0.5) -> None:
    """Let what is left over from the run before come to an end."""
    time.sleep(seconds)
