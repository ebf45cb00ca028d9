"""The two requests that come most often, answered without a framework; it gets all the others.

What a framework does for a request, to find its route, to look at its parameters and to make its response, takes longer
than scores, decision and record together.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from demur.serve.access.caller import caller_of
from demur.serve.contract import wire
from demur.serve.contract.commit import CommitResult
from demur.serve.contract.upload import is_upload
from demur.serve.gateway.handler import Handler
from demur.serve.gateway.intake import CallerLeft
from demur.serve.web.errors import problem_json, retry_after, status_of
from demur.serve.web.native.deadline import seconds_of, within
from demur.serve.web.problems import rendered
from demur.serve.web.shared.bodies import read_whole
from demur.serve.web.shared.browser_headers import FOR_MACHINES

logger = logging.getLogger("demur.http")

JSON = (b"content-type", b"application/json")
REPLAYED = (b"idempotent-replay", b"true")


@dataclass(frozen=True, slots=True)
class FastReply:
    """What is sent back."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Beside type and length of the body."""


class FastPath:
    """Predictions, and beside them what another application answers."""

    def __init__(self, handler: Handler, *, max_body_bytes: int) -> None:
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._ours: dict[str, Callable[[Scope, Receive], Awaitable[FastReply]]] = {
            "/v1/predict": self.predict,
            "/v1/predict/batch": self.predict_batch,
        }

    def before(self, app: ASGIApp) -> ASGIApp:
        """An application that answers what is ours, and leaves everything else to `app`, which knows what may stand
        behind a `?`."""

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            plain = scope["type"] == "http" and scope["method"] == "POST" and not scope.get("query_string")
            ours = self._ours.get(scope["path"]) if plain else None
            if ours is None:
                await app(scope, receive, send)
                return
            try:
                reply = await ours(scope, receive)
            except CallerLeft:
                return
            headers = [JSON, (b"content-length", b"%d" % len(reply.body)), *reply.headers, *FOR_MACHINES]
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})

        return answer

    async def predict(self, scope: Scope, receive: Receive) -> FastReply:
        """POST /v1/predict. Raises nothing but `CallerLeft`."""

        async def work() -> FastReply:
            body = await read_whole(receive, self._max_body_bytes)
            key, form = header(scope, b"idempotency-key"), form_of(scope)
            done = await self._handler.predict(body, key, caller_of(scope), form=form)
            return FastReply(wire.dump(wire.answer_json(done)), headers=(REPLAYED,) if done.replayed else ())

        return await _told(scope, work)

    async def predict_batch(self, scope: Scope, receive: Receive) -> FastReply:
        """POST /v1/predict/batch. Raises nothing but `CallerLeft`."""

        async def work() -> FastReply:
            body = await read_whole(receive, self._max_body_bytes)
            key, form = header(scope, b"idempotency-key"), form_of(scope)
            done = await self._handler.predict_batch(body, key, caller_of(scope), form=form)
            return FastReply(wire.dump({"results": [_batch_result(result) for result in done]}))

        return await _told(scope, work)


async def _told(scope: Scope, work: Callable[[], Awaitable[FastReply]]) -> FastReply:
    """What some work comes to within the time of the caller, or what is wrong."""
    try:
        return await within(seconds_of(header(scope, b"x-request-timeout")), work())
    except CallerLeft:
        raise
    except Exception as error:
        if status_of(error) == 500:
            logger.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
        problem = rendered(error, scope["path"])
        return FastReply(problem.body, problem.status, problem.headers)


def header(scope: Scope, name: bytes) -> str | None:
    """The value of a header, its name in lower case; None where it was not sent."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


def form_of(scope: Scope) -> str | None:
    """The content type of a request whose body is a form with files; None where it is JSON, whatever it is called."""
    kind = header(scope, b"content-type")
    return kind if kind is not None and is_upload(kind) else None


def _batch_result(result: CommitResult | Exception) -> dict[str, Any]:
    if isinstance(result, Exception):
        return {
            "status": status_of(result),
            "replayed": False,
            "prediction": None,
            "error": problem_json(result),
            "retry_after": retry_after(result),
        }
    return {
        "status": 200,
        "replayed": result.replayed,
        "prediction": wire.answer_json(result),
        "error": None,
        "retry_after": None,
    }
