"""Bodies of the pages and their APIs: read as at a gateway, and of forms far less."""

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from demur.serve.access.caller import caller_of, owner_of
from demur.serve.config.file import LimitsConfig
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway.intake import Arrival, BodyTooSlow, CallerLeft, Intake
from demur.serve.web.problems import problem_response

FORM_BYTES = 256 * 1024
"""Of what people type."""


class BodyLimits:
    """An application that is given bodies when they have come, and none that is too large or comes too slowly."""

    def __init__(self, app: ASGIApp, intake: Intake) -> None:
        self.app = app
        self._intake = intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        with Arrival(self._intake, owner_of(caller_of(scope))) as arrival:
            try:
                receive = await arrival.over_http(scope, receive, most=self._most(scope))
            except CallerLeft:
                return
            except (TooLarge, BodyTooSlow, Overloaded) as error:
                response = problem_response(Request(scope), error)
                if isinstance(error, BodyTooSlow):
                    response.headers["connection"] = "close"  # nobody waits for the rest of it
                await response(scope, receive, send)
                return
            await self.app(scope, receive, send)

    def _most(self, scope: Scope) -> int:
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"").lower()
        form = kind.startswith((b"application/x-www-form", b"multipart/"))
        return min(FORM_BYTES, self._intake.most) if form else self._intake.most


def add_body_limits(app: FastAPI, limits: LimitsConfig) -> None:
    """Around everything that reads."""
    intake = Intake(limits)
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: BodyLimits(build(), intake)  # type: ignore[method-assign]
