"""How people log in and out: a page for a link or a key, and the cookie that follows."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse

from demur.serve.access.caller import Caller, caller_of
from demur.serve.access.keys import Key, Rates, usable_key
from demur.serve.access.login_limits import LoginLimits
from demur.serve.access.proxy import TrustedProxy
from demur.serve.access.sessions import BeganBy, LoggedInPerson, LoginRefused, begin_session, end_session, use_code
from demur.serve.access.token_hashes import TokenHashes
from demur.serve.access.tokens import CODE, KEY, read_token
from demur.serve.config.access import AccessConfig, Scope
from demur.serve.web.shared.look import beside, root_of
from demur.traffic.database import Connection, Database

OF_PEOPLE = {Scope.REVIEW: "review", Scope.AUDIT: "audit", Scope.PREDICT: "try"}
"""Where somebody with a scope begins."""

PLACES = ("review", "audit", "try", "live", "models")
"""Where pages lie, each below a prefix of its own; the first page lies above them all."""

UNKNOWN = {
    CODE: "this code is not known; ask for a new link",
    KEY: "this key is not known, has expired or was revoked",
}

Page = Callable[..., Response]


class Logins:
    """Begins and ends sessions."""

    def __init__(self, access: AccessConfig, database: Database) -> None:
        self._access, self._database = access, database
        self._proxy = TrustedProxy(access.proxy) if access.proxy else None
        self._made = TokenHashes(database)
        self.limits = LoginLimits()

    def with_code(self, text: str, address: str | None) -> tuple[LoggedInPerson, BeganBy]:
        """Who shows this one-time code or key; raises `LoginRefused`, or `TooOften`. A made-up one counts for the
        address from which it comes, and keeps nobody out who shows a good one, from there or elsewhere."""
        token = read_token(text.strip().rpartition("#")[2])  # the whole link will do
        if token is None or token.kind not in (CODE, KEY):
            raise LoginRefused("this is neither a login link nor a key")
        if not self._made.knows(token):
            self.limits.count_address(address)
            if not self._made.look_for(token):
                raise LoginRefused(UNKNOWN[token.kind])
        self.limits.count_account(token.id)
        with self._database.transaction() as connection:
            if token.kind == CODE:
                return use_code(connection, token), "code"
            key = usable_key(connection, token)
            if key is None:
                raise LoginRefused(UNKNOWN[KEY])
            return LoggedInPerson(name=key.name, scopes=_for_people(key), key_id=key.id), "key"

    def address_of(self, request: Request) -> str | None:
        """From where somebody comes, if a proxy that is trusted says so; else nobody knows."""
        return None if self._proxy is None else self._proxy.address(request.scope["headers"])

    def let_in(self, request: Request, response: Response, person: LoggedInPerson, by: BeganBy) -> None:
        """Begin a session, end the one that there was, and give the cookie to the browser. What secret a browser brings
        is never taken over: nobody can make somebody use a session that they know."""
        lasting = timedelta(hours=self._access.session_hours)
        with self._database.transaction() as connection:
            self._end(connection, caller_of(request.scope))
            token = begin_session(
                connection,
                person,
                by=by,
                idle_seconds=self._access.idle_minutes * 60,
                expires_at=datetime.now(UTC) + lasting,
            )
        response.set_cookie(
            self._access.cookie,
            token.text,
            max_age=int(lasting.total_seconds()),
            path="/",
            secure=self._access.secure,
            httponly=True,
            samesite="strict",
        )

    def let_out(self, request: Request, response: Response) -> None:
        with self._database.transaction() as connection:
            self._end(connection, caller_of(request.scope))
        response.delete_cookie(
            self._access.cookie, path="/", secure=self._access.secure, httponly=True, samesite="strict"
        )

    @staticmethod
    def _end(connection: Connection, caller: Caller | None) -> None:
        if caller is not None and caller.session_id is not None:
            end_session(connection, caller.session_id)


def add_login(app: FastAPI, pages: APIRouter, page: Page, logins: Logins, *, provider: str | None = None) -> None:
    """Add `/login` and `/logout`, with the template login.html; `provider` is where people can log in besides."""

    def form(request: Request, status: int = 200, **told: object) -> Response:
        caller = caller_of(request.scope)
        return page(
            request,
            "login.html",
            status,
            **{"caller": caller, "back": "", "needs": "", "why": "", "provider": provider} | told,
        )

    @app.exception_handler(LoginRefused)
    async def say_why(request: Request, error: Exception) -> Response:
        return form(request, 403, why=str(error))

    @pages.get("/login")
    def show(request: Request, back: str = "", needs: str = "") -> Response:
        return form(request, back=way_back(request, back), needs=needs if needs in set(Scope) else "")

    @pages.post("/login")
    def log_in(request: Request, code: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "") -> Response:
        person, by = logins.with_code(code, logins.address_of(request))
        response = RedirectResponse(way_back(request, back) or first_page(request, person.scopes), status_code=303)
        logins.let_in(request, response, person, by)
        return response

    @pages.post("/logout")
    def log_out(request: Request) -> Response:
        response = RedirectResponse(f"{root_of(request)}/login", status_code=303)
        logins.let_out(request, response)
        return response


def way_back(request: Request, back: str) -> str:
    """The path that was asked for, if it is one of ours; else empty. Nobody is led elsewhere."""
    ours = tuple(f"{beside(request, name)}/" for name in PLACES)
    is_ours = back.startswith(ours) or back == beside(request, "")
    return back if is_ours and back.isprintable() and "\\" not in back and back.isascii() else ""


def first_page(request: Request, scopes: tuple[Scope, ...]) -> str:
    """Where somebody with these scopes begins."""
    name = next((OF_PEOPLE[scope] for scope in OF_PEOPLE if scope in scopes or Scope.ADMIN in scopes), "review")
    return f"{beside(request, name)}/"


def _for_people(key: Key) -> tuple[Scope, ...]:
    """What somebody may who logs in with a key. A session knows nothing of models and rates, so a key that is bound to
    some predicts only where it is shown itself. Raises `LoginRefused` where nothing is left."""
    bound = key.models is not None or key.rates != Rates()
    kept = tuple(scope for scope in key.scopes if not (bound and scope is Scope.PREDICT))
    if not kept:
        raise LoginRefused(
            "this key is bound to models or to a rate, and is for programs; ask for a login link (`demur keys login`)"
        )
    return kept
