"""A gateway's end of the sockets that lead past Ray's handle: the hosts of a model on this machine."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from demur.serve.config.file import Config
from demur.serve.deployments.socket_frames import (
    DONE,
    FAILED,
    GREETING,
    LARGEST,
    OTHERWISE,
    Frames,
    packed,
    socket_folder,
    unpacked,
)

logger = logging.getLogger("demur.deployments")

LOOK_SECONDS = 1.0
"""How often a gateway that has calls to make looks for new hosts."""


class NotAnswered(RuntimeError):
    """No host answered over a socket: none is there, it is full, or it broke off. Call by the handle."""


class HostFailed(RuntimeError):
    """A host raised something that cannot be sent. The message is its traceback."""


class HostLink(Frames):
    """A host, as a gateway sees it."""

    def __init__(self, model: str, *, ended: Callable[[], object]) -> None:
        super().__init__()
        self._model = model.encode()
        self._ended = ended
        self._greeted = False
        self._numbers = count(GREETING + 1)
        self._open: dict[int, asyncio.Future[bytearray]] = {}
        self._given_up: set[int] = set()
        self.called_at = 0.0

    @property
    def works(self) -> bool:
        """Whether to call it. A host that does not even say that a call was given up may hang."""
        return self.is_open and self._greeted and not self._given_up

    @property
    def calls(self) -> int:
        """How many are open."""
        return len(self._open)

    async def call(self, body: bytes) -> Any:
        """Return what the method returned, or raise what it raised; raises `NotAnswered` where the connection ends or
        the host has no room. A caller that is cancelled cancels the method."""
        self.called_at = time.monotonic()
        number = next(self._numbers)
        reply = self._open[number] = asyncio.get_running_loop().create_future()
        self.send(number, body)
        try:
            kind, value = unpacked(await reply)
        except asyncio.CancelledError:
            if number in self._open:
                self._given_up.add(number)
                self.send(number, b"")
            raise
        if kind == DONE:
            return value
        if kind == OTHERWISE:
            raise NotAnswered(value)
        error, told = value if kind == FAILED else (None, value)
        raise HostFailed(told) if error is None else error from HostFailed(told)

    def received(self, number: int, body: bytearray) -> None:
        if number == GREETING:
            self._greeted = body == self._model
            return
        self._given_up.discard(number)
        reply = self._open.pop(number, None)
        if reply and not reply.done():
            reply.set_result(body)

    def lost(self) -> None:
        waiting, self._open = self._open, {}
        for reply in waiting.values():
            if not reply.done():
                reply.set_exception(NotAnswered("the host broke off"))
        self._ended()


class LocalHosts:
    """The hosts of one model that listen in a folder. They are called in one event loop."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder = folder
        self._model = model
        self._links: dict[str, HostLink] = {}
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._looked_at = float("-inf")

    async def call(self, method: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Call the host with the fewest open calls. Raises what the method raises. Raises `NotAnswered` where the
        handle is to be used instead, also after the call was sent: methods called here have no side effects."""
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._look()
        links = [link for link in self._links.values() if link.works]
        if not links:
            raise NotAnswered("no host is there")
        try:
            body = packed(method, arguments, named)
        except Exception as error:  # Ray can send more kinds of objects
            raise NotAnswered("the call cannot be sent") from error
        if len(body) > LARGEST:
            raise NotAnswered(f"the call has {len(body):,} bytes")
        return await min(links, key=lambda link: (link.calls, link.called_at)).call(body)

    def _look(self) -> None:
        """Begin to connect to hosts that are new. Those that have gone ended their links."""
        self._looked_at = time.monotonic()
        with suppress(OSError):
            for name in os.listdir(self._folder):
                known = name in self._links or name in self._connecting
                if name.rpartition("~")[0] == self._model and not known:
                    self._connecting[name] = asyncio.get_running_loop().create_task(self._connect(name))

    async def _connect(self, name: str) -> None:
        path = self._folder / name
        link = HostLink(self._model, ended=lambda: self._links.pop(name, None))
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: link, str(path))
            if link.is_open:
                self._links[name] = link
        except FileNotFoundError:
            pass  # it has just stopped
        except ConnectionRefusedError:  # its process was killed
            with suppress(OSError):
                path.unlink()
        except OSError as error:
            logger.warning("no connection to a host of %s: %s", self._model, error)
        finally:
            del self._connecting[name]


def local_hosts(config: Config, model: str) -> LocalHosts | None:
    """The hosts of a model on this machine; None where calls go by the handle alone."""
    folder = socket_folder(config, model)
    return LocalHosts(folder, model) if folder else None
