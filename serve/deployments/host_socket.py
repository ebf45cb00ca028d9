"""A host's end of the sockets that lead past Ray's handle: where a replica listens, and the gateways that call it."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from demur.serve.deployments.socket_frames import (
    DONE,
    GIVEN_UP,
    GREETING,
    LARGEST,
    OTHERWISE,
    Frames,
    packed,
    packed_error,
    unpacked,
)

logger = logging.getLogger("demur.deployments")


class HostSocket:
    """Where a replica of a host listens: at `MODEL~PID`."""

    def __init__(self, model: str, methods: Mapping[str, Callable[..., Awaitable[Any]]], *, most: int) -> None:
        """At most so many calls are open at a time. With more of them, callers are sent to the handle."""
        self.model = model
        self.methods = dict(methods)
        self.most = most
        self.stops = False
        self.tasks: set[asyncio.Task[bytes]] = set()
        self.callers: set[HostCaller] = set()
        self._path: Path | None = None
        self._server: asyncio.Server | None = None

    async def open(self, folder: Path) -> None:
        """Listen in a folder. Where that is not possible it is logged, and all calls come by the handle."""
        path = folder / f"{self.model}~{os.getpid()}"
        fresh = path.with_name(f".{path.name}")
        try:
            fresh.unlink(missing_ok=True)
            self._server = await asyncio.get_running_loop().create_unix_server(lambda: HostCaller(self), fresh)
            fresh.rename(path)  # now gateways find it, and can connect
        except OSError as error:
            logger.warning("calls to %s go by Ray's handle: cannot listen at %s: %s", self.model, path, error)
            return
        self._path = path

    async def close(self) -> None:
        """Take no more calls, and come back when those that are open have been replied to."""
        self.stops = True
        if self._path:
            self._path.unlink(missing_ok=True)
        if self._server:
            self._server.close()
        while self.tasks:
            await asyncio.wait(self.tasks)
        for caller in list(self.callers):
            caller.close()


class HostCaller(Frames):
    """A gateway, as a host sees it. Each call is a task of its own."""

    def __init__(self, host: HostSocket) -> None:
        super().__init__()
        self._host = host
        self._open: dict[int, asyncio.Task[bytes]] = {}

    def opened(self) -> None:
        self._host.callers.add(self)
        self.send(GREETING, self._host.model.encode())

    def lost(self) -> None:
        self._host.callers.discard(self)
        for task in self._open.values():
            task.cancel()

    def received(self, number: int, body: bytearray) -> None:
        if not body:
            if number in self._open:  # else its reply is on its way
                self._open[number].cancel()
        elif number in self._open:
            logger.error("closed a socket: call %d was made twice", number)
            self.close(at_once=True)
        elif self._host.stops or len(self._host.tasks) >= self._host.most:
            self.send(number, packed(OTHERWISE, "the host is full, or stops"))
        else:
            task = self._open[number] = asyncio.get_running_loop().create_task(self._work(body))
            self._host.tasks.add(task)
            task.add_done_callback(partial(self._reply, number))

    async def _work(self, body: bytearray) -> bytes:
        try:
            method, arguments, named = unpacked(body)
            answer = await self._host.methods[method](*arguments, **named)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a library in another language may raise what is no Exception
            return packed_error(error)
        try:
            reply = packed(DONE, answer)
        except Exception as error:  # Ray can send more kinds of objects
            return packed(OTHERWISE, f"the reply cannot be sent: {error}")
        return reply if len(reply) <= LARGEST else packed(OTHERWISE, f"the reply has {len(reply):,} bytes")

    def _reply(self, number: int, task: asyncio.Task[bytes]) -> None:
        self._host.tasks.discard(task)
        del self._open[number]
        self.send(number, packed(GIVEN_UP, "the call was cancelled") if task.cancelled() else task.result())
