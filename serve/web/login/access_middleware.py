"""The one place where callers are let in: ASGI, around everything that an application answers."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.types import ASGIApp, Receive, Send

from demur.serve.access.authenticator import HOW, Authenticator
from demur.serve.access.caller import CALLER, Caller, Via
from demur.serve.access.needs import OPEN, Doors, Needs
from demur.serve.access.refusals import FromElsewhere, NotAllowed, NotKnown, TooOften
from demur.serve.web.login.browser_guard import CHANGES_NOTHING, FOR_MACHINES, FROM_HERE
from demur.serve.web.login.refused import send_problem, send_whole
from demur.serve.web.problems import path_of
from demur.serve.web.shared.cookies import cookie
from demur.traffic.database import DatabaseUnavailable

REFUSALS = (NotKnown, NotAllowed, TooOften, FromElsewhere, DatabaseUnavailable)

LOGIN = "/review/login"
"""Beside the application, wherever they are mounted."""


class Credentials(NamedTuple):
    """What a request shows of who sends it."""

    authorization: str | None
    api_key: str | None
    session: str | None

    @property
    def key(self) -> bool:
        return self.authorization is not None or self.api_key is not None


class AccessMiddleware:
    """An application behind a door. Whoever gets in is in the ASGI scope, under `CALLER`."""

    def __init__(self, app: ASGIApp, keeper: Authenticator, needs: Needs, *, cookie: str | None = None) -> None:
        """`cookie` is the name of that with a session; None where people do not come, but machines alone."""
        self._app, self._keeper, self._doors, self._cookie = app, keeper, Doors(needs), cookie
        self.routes = getattr(app, "routes", [])  # Ray names requests in its metrics by them

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                scope[CALLER] = await self._admit(scope)
            except REFUSALS as error:
                await self._refuse(scope, error, send)
                return
        elif scope["type"] != "lifespan":  # there is nothing here for WebSockets
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._app(scope, receive, send)

    async def _admit(self, scope: Any) -> Caller | None:
        method, path, shown = scope["method"], path_of(scope), self._shown(scope["headers"])
        needs = self._doors.needs(method, path)
        if needs is OPEN:
            return await self._whoever(scope, path, shown)
        if not shown.key and (caller := self._keeper.told(scope["headers"])) is not None:
            _check_from_here(scope, caller)
        elif shown.key or shown.session is None:
            caller = await self._keeper.caller(shown.authorization, shown.api_key)
        else:
            caller = await self._keeper.person(shown.session, seen=_by_hand(method, path))
            _check_from_here(scope, caller)
        self._keeper.check(caller, needs)
        caller.take_request()
        return caller

    async def _whoever(self, scope: Any, path: str, shown: Credentials) -> Caller | None:
        """Who comes through an open door, if they show it."""
        try:
            if shown.key:
                return await self._keeper.caller(shown.authorization, shown.api_key)
            if (caller := self._keeper.told(scope["headers"])) is not None:
                _check_from_here(scope, caller)
                return caller
            if shown.session is not None and not path.startswith("/static/"):
                caller = await self._keeper.person(shown.session, seen=False)
                _check_from_here(scope, caller)
                return caller
        except (NotKnown, NotAllowed, DatabaseUnavailable):
            pass
        return None

    def _shown(self, headers: Sequence[tuple[bytes, bytes]]) -> Credentials:
        authorization = api_key = session = None
        for name, value in headers:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"x-api-key":
                api_key = value.decode("latin-1")
            elif name == b"cookie" and self._cookie is not None:
                session = cookie(value.decode("latin-1"), self._cookie) or session
        return Credentials(authorization, api_key, session)

    async def _refuse(self, scope: Any, error: Exception, send: Send) -> None:
        of_people = self._cookie is not None and not path_of(scope).startswith(FOR_MACHINES)
        if of_people and isinstance(error, NotKnown | NotAllowed) and not self._shown(scope["headers"]).key:
            await send_whole(send, 303, b"", [(b"location", self._login(scope, error))])
            return
        await send_problem(scope, error, send)

    def _login(self, scope: Any, error: Exception) -> bytes:
        """Where people say who they are, and from where they come back."""
        root = scope.get("root_path", "")
        query = {"back": f"{root}{path_of(scope)}"} if scope["method"] == "GET" else {}
        if isinstance(error, NotAllowed):
            query["needs"] = str(self._doors.needs(scope["method"], path_of(scope)))
        return f"{root.rpartition('/')[0]}{LOGIN}{'?' if query else ''}{urlencode(query)}".encode()


def _check_from_here(scope: Any, caller: Caller) -> None:
    """Raise `FromElsewhere` unless a page of ours sent what changes something in the name of who is logged in. Every
    browser says so with a POST; what says nothing is no page of ours. Through a proxy machines come as well."""
    if scope["method"] not in CHANGES_NOTHING and caller.via is Via.SESSION and not scope.get(FROM_HERE):
        raise FromElsewhere(f"this was not sent from a page of this service; {HOW} if you are a machine")


def _by_hand(method: str, path: str) -> bool:
    """Whether a person does this, and not a page that is open and asks by itself."""
    return not path.endswith("/heartbeat") and not (method == "GET" and path.startswith("/v1/"))
