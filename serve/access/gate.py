"""The one place where callers are let in: ASGI, around everything that an application answers."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Send

from serve import wire
from serve.access.caller import CALLER, Caller, Via
from serve.access.keeper import HOW, Keeper
from serve.access.needs import OPEN, Doors, Needs
from serve.access.refusals import NotAllowed, NotKnown, TooOften
from serve.chat.errors import problem_of
from serve.errors import problem_json, retry_after, status_of
from serve.pages.cookies import cookie
from serve.pages.visitor import FromElsewhere, is_from_here
from traffic.database import DatabaseUnavailable

REFUSALS = (NotKnown, NotAllowed, TooOften, FromElsewhere, DatabaseUnavailable)

OF_OPENAI = ("/v1/chat/", "/v1/models")
"""Where clients expect errors in OpenAI's shape."""

OF_INFERENCE = "/v2"
"""Where clients expect errors as the Open Inference Protocol has them."""

FOR_MACHINES = ("/v1/", "/metrics")
"""Where nobody is sent to the login."""

CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")

LOGIN = "/review/login"
"""Beside the application, wherever they are mounted."""


class Shown(NamedTuple):
    """What a request shows of who sends it."""

    authorization: str | None
    api_key: str | None
    session: str | None

    @property
    def key(self) -> bool:
        return self.authorization is not None or self.api_key is not None


class Gate:
    """An application behind a door. Whoever gets in is in the ASGI scope, under `CALLER`."""

    def __init__(self, app: ASGIApp, keeper: Keeper, needs: Needs, *, cookie: str | None = None) -> None:
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

    async def _whoever(self, scope: Any, path: str, shown: Shown) -> Caller | None:
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

    def _shown(self, headers: Sequence[tuple[bytes, bytes]]) -> Shown:
        authorization = api_key = session = None
        for name, value in headers:
            if name == b"authorization":
                authorization = value.decode("latin-1")
            elif name == b"x-api-key":
                api_key = value.decode("latin-1")
            elif name == b"cookie" and self._cookie is not None:
                session = cookie(value.decode("latin-1"), self._cookie) or session
        return Shown(authorization, api_key, session)

    async def _refuse(self, scope: Any, error: Exception, send: Send) -> None:
        path = path_of(scope)
        of_people = self._cookie is not None and not path.startswith(FOR_MACHINES)
        if of_people and isinstance(error, NotKnown | NotAllowed) and not self._shown(scope["headers"]).key:
            await _send(send, 303, b"", [(b"location", self._login(scope, error))])
            return
        status = status_of(error)
        content: dict[str, Any] = {"error": problem_json(error)}
        if path.startswith(OF_OPENAI):
            status, content = problem_of(error)
        elif path.startswith(OF_INFERENCE):
            content = {"error": problem_json(error)["message"]}
        headers = [(b"content-type", b"application/json")]
        if status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="demur"'))
        if (seconds := retry_after(error)) is not None:
            headers.append((b"retry-after", str(seconds).encode()))
        await _send(send, status, wire.dump(content), headers)

    def _login(self, scope: Any, error: Exception) -> bytes:
        """Where people say who they are, and from where they come back."""
        root = scope.get("root_path", "")
        query = {"back": f"{root}{path_of(scope)}"} if scope["method"] == "GET" else {}
        if isinstance(error, NotAllowed):
            query["needs"] = str(self._doors.needs(scope["method"], path_of(scope)))
        return f"{root.rpartition('/')[0]}{LOGIN}{'?' if query else ''}{urlencode(query)}".encode()


def path_of(scope: Any) -> str:
    """The path below the prefix under which the application is mounted, as its router takes it."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        below = path[len(root) :]
        if below == "" or below[0] == "/":
            return below or "/"
    return path


def _check_from_here(scope: Any, caller: Caller) -> None:
    """Raise `FromElsewhere` unless a page of ours sent what changes something in the name of who is logged in. Every
    browser says so with a POST; what says nothing is no page of ours. Through a proxy machines come as well."""
    if scope["method"] in CHANGES_NOTHING:
        return
    here = is_from_here(Headers(scope=scope))
    if here is False or (here is None and caller.via is Via.SESSION):
        raise FromElsewhere(f"this was not sent from a page of this service; {HOW} if you are a machine")


def _by_hand(method: str, path: str) -> bool:
    """Whether a person does this, and not a page that is open and asks by itself."""
    return not path.endswith("/heartbeat") and not (method == "GET" and path.startswith("/v1/"))


async def _send(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    always = [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers + always})
    await send({"type": "http.response.body", "body": body})
