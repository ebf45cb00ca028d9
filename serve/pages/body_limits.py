"""No body is larger than what is taken, whichever way it is read: JSON as `limits.body_bytes` says, forms far less."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.gateway.http import problem_response
from serve.inputs import TooLarge

FORM_BYTES = 256 * 1024
"""Of what people type."""


class BodyLimits:
    """An application that never sees the end of a body that is too large."""

    def __init__(self, app: ASGIApp, json_bytes: int) -> None:
        self.app = app
        self._json_bytes = json_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        form = headers.get(b"content-type", b"").lower().startswith((b"application/x-www-form", b"multipart/"))
        most = min(FORM_BYTES, self._json_bytes) if form else self._json_bytes
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told) > most:
            await problem_response(_too_large(most))(scope, receive, send)
            return
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise _too_large(most)
            return message

        await self.app(scope, counted, send)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body has more than {most:,} bytes, which is what is taken here")


def add_body_limits(app: FastAPI, json_bytes: int) -> None:
    """Around everything that reads."""
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: BodyLimits(build(), json_bytes)  # type: ignore[method-assign]
