"""The layer around the gateway's application: each request gets its id, is counted, and timed; over gRPC as well."""

import logging
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uuid_utils import uuid4  # a twelfth of what the standard library takes

from demur.serve.telemetry.request_context import VISIT, RequestContext
from demur.serve.telemetry.telemetry import Telemetry

log = logging.getLogger("demur.access")

HEADER = b"x-request-id"
SANE = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")

BUSY = frozenset(("/v1/predict", "/v1/predict/batch", "/v1/chat/completions", "/healthz"))
"""Routes that are known by their path; of the others the framework says which they are."""

ELSEWHERE = "other"

OVER_GRPC = "GRPC"
"""What stands in the place of a method."""

CLIENT_CLOSED_REQUEST = 499
"""Of a request that nobody waited for any more."""


class RequestMiddleware:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry, *, echo: bool = True, access_log: bool = False) -> None:
        """Without `echo`, whoever is in front gives callers their id back, and an id to those who sent none."""
        self._app = app
        self._telemetry = telemetry
        self._echo = echo
        self._access_log = access_log
        self.routes = getattr(app, "routes", [])  # Ray names requests in its metrics by them

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        told = _header(scope["headers"], HEADER)
        sane = told is not None and SANE.fullmatch(told) is not None
        request_id = told if sane else uuid4().hex.encode()
        echo = self._echo or not sane
        status = CLIENT_CLOSED_REQUEST  # unless somebody answers

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if echo:
                    message["headers"] = [*message.get("headers", ()), (HEADER, request_id)]
            await send(message)

        visit = RequestContext(request_id.decode(), self._telemetry)  # type: ignore[union-attr]
        VISIT.set(visit)  # in the context of this request's task, which ends with it
        traces = self._telemetry.traces
        if traces:
            traces.begin(visit, scope["method"], scope["headers"])
        self._telemetry.open_requests += 1
        try:
            await self._app(scope, receive, answer)
        except Exception:
            status = 500
            raise
        finally:
            self._telemetry.open_requests -= 1
            seconds = time.perf_counter() - began
            route = scope["path"] if scope["path"] in BUSY else _route(scope)
            self._telemetry.answered(route, status, seconds)
            if traces:
                traces.end(visit, scope["method"], route, status)
            if self._access_log:
                _note(scope["method"], _as_sent(scope), status, seconds)


@dataclass(slots=True)
class GrpcCall:
    """A call over gRPC."""

    request_id: str
    status: int = CLIENT_CLOSED_REQUEST
    """What it would be over HTTP, once somebody has answered."""


@contextmanager
def call_received(
    telemetry: Telemetry, path: str, metadata: Iterable[tuple[str, str | bytes]], *, access_log: bool
) -> Iterator[GrpcCall]:
    """Answer a call over gRPC as long as this is open: it is named, counted, timed and traced, as `RequestMiddleware`
    does it."""
    began = time.perf_counter()
    headers = [(name.encode(), value.encode()) for name, value in metadata if isinstance(value, str)]
    told = _header(headers, HEADER)
    received = GrpcCall(told.decode() if told is not None and SANE.fullmatch(told) else uuid4().hex)
    visit = RequestContext(received.request_id, telemetry)
    VISIT.set(visit)  # in the context of this call's task, which ends with it
    traces = telemetry.traces
    if traces:
        traces.begin(visit, OVER_GRPC, headers)
    telemetry.open_requests += 1
    try:
        yield received
    finally:
        telemetry.open_requests -= 1
        seconds = time.perf_counter() - began
        telemetry.answered(path, received.status, seconds)
        if traces:
            traces.end(visit, OVER_GRPC, path, received.status)
        if access_log:
            _note(OVER_GRPC, path, received.status, seconds)


def _header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


def _note(method: str, path: str, status: int, seconds: float) -> None:
    """A line of the access log."""
    more = {"method": method, "path": path, "status": status, "milliseconds": round(seconds * 1000, 3)}
    log.info("%s %s %d %.1f ms", method, path, status, seconds * 1000, extra=more)


def _route(scope: Scope) -> str:
    """The pattern of the address, which has no ids in it."""
    return getattr(scope.get("route"), "path", ELSEWHERE)


def _as_sent(scope: Scope) -> str:
    """The path, without what follows a question mark, and with nothing in it that ends a line."""
    return str(scope.get("raw_path", b"").split(b"?")[0], "latin-1")
