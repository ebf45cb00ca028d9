"""Cookies as browsers send them, read in a time that grows with their length and no faster.

Python's library undoes the quoting of cookies (`http.cookies`). Before 3.11.10, 3.12.6 and 3.13 it takes seconds for a
header of some kilobytes that is full of backslashes. No cookie of ours has one.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


def cookie(header: str, name: str) -> str | None:
    """The value of a cookie as it was sent, the last one of that name; None where there is none."""
    found = None
    for pair in header.split(";"):
        key, equals, value = pair.partition("=")
        if equals and key.strip() == name:
            found = value.strip()
    return found


class PlainCookies:
    """An application that is sent no cookie with a backslash: it is taken out."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == b"cookie" and b"\\" in value for name, value in scope["headers"]):
            scope["headers"] = [
                (name, value.replace(b"\\", b"") if name == b"cookie" else value) for name, value in scope["headers"]
            ]
        await self.app(scope, receive, send)
