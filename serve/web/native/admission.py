"""The first thing that a request meets at a gateway: whether there is room for it, and its body, which is read here."""

from starlette.datastructures import QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from demur.serve.access.caller import caller_of, owner_of
from demur.serve.contract.batching import Overloaded
from demur.serve.contract.inputs import TooLarge
from demur.serve.gateway.intake import Arrival, BodyTooSlow, CallerLeft, Intake
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.web.problems import rendered

ALWAYS_OPEN = frozenset({"/healthz", "/metrics", "/v2/health/live", "/v2/health/ready"})
"""Whoever looks after this service must not take a full one for a dead one."""

REFUSALS = (Overloaded, BodyTooSlow, TooLarge)


class Admission:
    """Lets requests in as long as there is room. Whoever comes then is told so at once, with its body unread.

    A request has a place from when its body has come: one that never comes takes none. A request that waits for an
    outcome has a bound of its own (`OutcomeWatch`) and is not counted here.
    """

    def __init__(self, app: ASGIApp, room: RequestLimit, intake: Intake) -> None:
        self._app, self._room, self._intake = app, room, intake

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_always_open(scope["path"]) or _waits(scope):
            await self._app(scope, receive, send)
            return
        owner = owner_of(caller_of(scope))
        with Arrival(self._intake, owner) as arrival:
            try:
                self._room.check(owner)
                receive = await arrival.over_http(scope, receive, most=self._intake.most)
                self._room.enter(owner)
            except CallerLeft:
                return
            except REFUSALS as error:
                await _refuse(scope["path"], send, error)
                return
            try:
                await self._app(scope, receive, send)
            finally:
                self._room.leave(owner)


def _is_always_open(path: str) -> bool:
    return path in ALWAYS_OPEN or path.startswith("/healthz/")


def _waits(scope: Scope) -> bool:
    """Whether a request waits for an outcome, as its route will read the address."""
    if scope["method"] != "GET" or b"wait=" not in scope["query_string"]:
        return False
    try:
        return scope["path"].startswith("/v1/predictions/") and float(QueryParams(scope["query_string"])["wait"]) > 0
    except (KeyError, ValueError):
        return False


async def _refuse(path: str, send: Send, error: Exception) -> None:
    problem = rendered(error, path)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(problem.body)), *problem.headers]
    if isinstance(error, BodyTooSlow):  # nobody waits for the rest of it
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": problem.body})
