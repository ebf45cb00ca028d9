"""What a gateway and a host on one machine say to each other over a Unix socket.

A frame is a number (8 bytes), a length (4 bytes) and so many bytes. A host begins with frame 0, the name of its model.
A call has a number and a pickle of method, arguments and named arguments. Its reply has its number, and replies come in
any order. A frame without bytes gives up the call of its number. Each call is replied to once, given up or not.
"""

import asyncio
import logging
import os
import pickle
import socket
import stat
import struct
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from demur.serve.config.file import Config

logger = logging.getLogger("demur.deployments")

VARIABLE: Final = "DEMUR_SOCKETS"
"""Names the folder of the sockets in the environment of what `demur up` starts. Elsewhere there is none."""

LARGEST: Final = 256 * 2**20
"""Bytes of a frame. Who is sent more closes the connection. A call or a reply that would be larger goes by the handle.
"""

HEADER: Final = struct.Struct("<QI")

GREETING: Final = 0
"""The number of the frame with which a host begins."""

DONE, FAILED, GIVEN_UP, OTHERWISE = range(4)
"""What a reply says: what the method returned, what it raised, that it was cancelled, or to take the handle."""


def socket_folder(config: "Config", model: str) -> Path | None:
    """The folder of the sockets; None where calls to a model go by the handle.

    With autoscaling Ray Serve has to count what a host has to do, so there everything goes by the handle.
    """
    named = os.environ.get(VARIABLE)
    if not (named and config.gateway.local_sockets and hasattr(socket, "SO_PEERCRED")):
        return None
    if config.models[model].host.autoscaling:
        return None
    folder = Path(named)
    if not _is_private(folder):
        logger.warning("calls to %s go by Ray's handle: %s is no folder of this user alone", model, folder)
        return None
    return folder


def _is_private(folder: Path) -> bool:
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077


def user_of_peer(connection: Any) -> int:
    """The user id of the process at the other end of a socket."""
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(user)


def packed(*parts: object) -> bytes:
    """Arrays in it are not copied more often than once. Raises what pickle raises where something cannot be sent."""
    return pickle.dumps(parts, protocol=5)


def unpacked(body: bytes | bytearray) -> tuple[Any, ...]:
    """What a process of this user has packed: `Frames` reads nothing from others."""
    parts: tuple[Any, ...] = pickle.loads(body)  # noqa: S301 - both ends are this service
    return parts


def packed_error(error: BaseException) -> bytes:
    """A reply with the error and its traceback, or with the traceback alone: where the error does not survive it, or is
    no `Exception` and would end what reads it."""
    told = "".join(traceback.format_exception(error))
    if not isinstance(error, Exception):
        return packed(FAILED, (None, told))
    try:
        reply = packed(FAILED, (error, told))
        unpacked(reply)
    except Exception:
        return packed(FAILED, (None, told))
    return reply


class Frames(asyncio.Protocol):
    """One end of a connection. It reads nothing from, and sends nothing to, a process of another user."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._got = bytearray()

    def opened(self) -> None:
        """The other end is a process of this user."""

    def received(self, number: int, body: bytearray) -> None:
        """A frame has come."""

    def lost(self) -> None:
        """The connection has ended."""

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, number: int, body: bytes) -> None:
        """Send a frame; nothing where the connection has ended."""
        if self._transport and not self._transport.is_closing():
            self._transport.writelines([HEADER.pack(number, len(body)), body])

    def close(self, *, at_once: bool = False) -> None:
        """Close the connection, by default when all is sent."""
        transport, self._transport = self._transport, None
        if transport and at_once:
            transport.abort()
        elif transport:
            transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's
        if (user := user_of_peer(transport.get_extra_info("socket"))) == os.geteuid():
            self.opened()
        else:
            logger.error("the process at the other end of a host's socket belongs to user %d; closed it", user)
            self.close(at_once=True)

    def data_received(self, data: bytes) -> None:
        self._got += data
        while self._transport and len(self._got) >= HEADER.size:
            number, size = HEADER.unpack_from(self._got)
            if size > LARGEST:
                logger.error("closed a host's socket: somebody announced %d bytes at once", size)
                self.close(at_once=True)
                return
            end = HEADER.size + size
            if len(self._got) < end:
                return
            body = self._got[HEADER.size : end]
            del self._got[:end]
            self.received(number, body)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self.lost()
