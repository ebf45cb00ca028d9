"""What a browser is told with every response: to guess nothing, to show it nowhere else, to tell nobody."""

from fastapi import FastAPI
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Headers = list[tuple[bytes, bytes]]

POLICY = b"content-security-policy"

NOTHING_AT_ALL = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What JSON, files and problems may load. Pages say what they need."""

ALWAYS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),  # for browsers that know no `frame-ancestors`
    (b"referrer-policy", b"same-origin"),  # not `no-referrer`: with it, browsers hide where a form comes from as well
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=()"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-permitted-cross-domain-policies", b"none"),
]
"""HSTS is left to the proxy that speaks TLS."""

FOR_MACHINES: Headers = [*ALWAYS, (POLICY, NOTHING_AT_ALL)]
"""All that a response needs that is no page; whatever answers beside the applications sends them itself."""


class BrowserHeaders:
    """An application whose responses carry them. What a response says itself about its policy stands."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                own = any(name == POLICY for name, _ in headers)
                message["headers"] = [*headers, *(ALWAYS if own else FOR_MACHINES)]
            await send(message)

        await self.app(scope, receive, told if scope["type"] == "http" else send)


def add_browser_headers(app: FastAPI) -> None:
    """Around everything else, so that what nobody foresaw is told with them too."""
    build = app.build_middleware_stack
    app.build_middleware_stack = lambda: BrowserHeaders(build())  # type: ignore[method-assign]
