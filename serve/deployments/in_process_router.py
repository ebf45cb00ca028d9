"""A shorter way for predictions: from the HTTP server of a replica straight into its gateway.

What Ray Serve does around a request, with a context, tasks and counters of its own, takes as long as everything that a
gateway does for it. Serve takes middleware in front of that, from the function that is named in
RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH; where none is, requests go the long way and come to the same.
"""

import asyncio
from asyncio import CancelledError
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

VARIABLE = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
FUNCTION = "demur.serve.deployments.in_process_router.middlewares"

PATHS: Final = frozenset({"/v1/predict", "/v1/predict/batch"})

LEFT_SECONDS = 0.5
"""Of a request that takes longer it is seen whether its caller is still there: nearly all are over before."""

_gateways: dict[str, ASGIApp] = {}
"""Of this process: the application that answers a path."""


def middlewares() -> list[Middleware]:
    """Called by Ray Serve in every process that listens for HTTP."""
    return [Middleware(InProcessRouter)]


def open_shortcut(gateway: ASGIApp, paths: Iterable[str] = PATHS) -> None:
    """What comes to this process under one of these paths goes straight to this application from now on."""
    _gateways.update(dict.fromkeys(paths, gateway))


class InProcessRouter:
    """An ASGI application that sends predictions to the gateway of this process, and the rest to Ray Serve."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = _gateways.get(scope["path"]) if scope["type"] == "http" else None
        if gateway is None:
            await self._app(scope, receive, send)
            return
        caller = WaitingClient(receive)
        try:
            await gateway(scope, caller.receive, send)
        except CancelledError:
            if not caller.left:
                raise
        finally:
            caller.over()


class WaitingClient:
    """Whoever waits for the answer to a request. When they leave, the work for it is cancelled."""

    __slots__ = ("_looking", "_receive", "_sent_all", "_task", "_timer", "left")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._sent_all = False
        self._looking: asyncio.Task[None] | None = None
        self._task: Any = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(LEFT_SECONDS, self._look)
        self.left = False

    async def receive(self) -> Message:
        """Receive as ASGI has it. Until all has been sent, whoever reads it sees for themselves that nothing comes any
        more."""
        message = await self._receive()
        if not message.get("more_body", False):
            self._sent_all = True
            if self._timer is None:
                self._look()
        return message

    def over(self) -> None:
        """The request is over."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        self._timer = None
        if self._sent_all and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._wait_until_left())

    async def _wait_until_left(self) -> None:
        with suppress(CancelledError):
            if (await self._receive())["type"] == "http.disconnect":
                self.left = True
                self._task.cancel()
