"""Hosts that listen at Unix sockets, for tests of both ends."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from demur.serve.deployments.host_socket import HostSocket
from demur.serve.deployments.local_hosts import LocalHosts, NotAnswered


class Unsendable(Exception):
    def __init__(self, first, second):
        super().__init__(first)


class LibraryPanic(BaseException):
    """As libraries in Rust raise it."""


class FakeHost:
    """Waits until it is told to go on, where its input says so."""

    def __init__(self):
        self.go_on = asyncio.Event()
        self.waiting = self.cancelled = self.most = 0
        self.traces = []
        self.no_artifact = self.no_draws = None

    async def decide(self, inputs, groups, draws, traceparent=None):
        self.traces.append(traceparent)
        match groups[0]:
            case "wait":
                self.waiting += 1
                self.most = max(self.most, self.waiting)
                try:
                    await self.go_on.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
                    raise
                finally:
                    self.waiting -= 1
            case "fail":
                raise ValueError("no such number")
            case "unsendable":
                raise Unsendable("one", "two")
            case "panic":
                raise LibraryPanic("index out of bounds")
            case "cancelled":
                raise asyncio.CancelledError
            case "function":
                return lambda: None
            case "no artifact":
                return self.no_artifact
            case "no draws":
                return self.no_draws
        return inputs

    async def decide_next(self, inputs, groups, step, traceparent=None):
        return [step, groups]


@asynccontextmanager
async def hosting(folder, *, most=8, pid=None, model="digits"):
    host = FakeHost()
    listening = HostSocket(model, {"decide": host.decide, "decide_next": host.decide_next}, most=most)
    await listening.open(folder)
    if pid:
        listening._path = listening._path.rename(folder / f"{model}~{pid}")
    host.socket = listening
    try:
        yield host
    finally:
        host.go_on.set()
        await asyncio.wait_for(listening.close(), 10)


async def until(true):
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)


async def linked(folder, hosts=1, model="digits"):
    """A gateway's hosts, connected."""
    local = LocalHosts(folder, model)
    with pytest.raises(NotAnswered):
        await local.call("decide", ([0], [None], None), {})
    await until(lambda: sum(link.works for link in local._links.values()) == hosts)
    return local
