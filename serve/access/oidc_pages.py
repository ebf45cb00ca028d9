"""The two addresses of a login at a provider: where it begins, and where the browser comes back to."""

from hmac import compare_digest

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from serve.access.login import Logins, Page, first_page, way_back
from serve.access.oidc import LOGIN_MINUTES, Provider, recall, remember
from serve.access.sessions import LoginRefused
from serve.config.access import AccessConfig
from traffic.database import Database


def add_oidc(pages: APIRouter, page: Page, logins: Logins, access: AccessConfig, database: Database) -> None:
    """Add `/login/oidc` and `/login/oidc/callback`."""
    assert access.oidc is not None
    provider = Provider(access.oidc, f"{access.url}/review/login/oidc/callback")
    cookie = f"{access.cookie}-login"

    @pages.get("/login/oidc")
    def begin(request: Request, back: str = "") -> Response:
        logins.count()
        begun = provider.begin()
        with database.transaction() as connection:
            remember(connection, begun, back=way_back(request, back))
        response = RedirectResponse(begun.address, status_code=303)
        # Lax, because the way back begins on a page of the provider; it only ties what comes back to this browser
        response.set_cookie(
            cookie, begun.state, max_age=LOGIN_MINUTES * 60, secure=access.secure, httponly=True, samesite="lax"
        )
        return response

    @pages.get("/login/oidc/callback")
    def come_back(request: Request, state: str = "", code: str = "", iss: str = "", error: str = "") -> Response:
        ours = request.cookies.get(cookie, "")
        if not state or not compare_digest(ours.encode(), state.encode()):
            raise LoginRefused("this login did not begin in this browser, or long ago; begin again")
        logins.count()
        with database.transaction() as connection:
            begun = recall(connection, state)
        if begun is None:
            raise LoginRefused("this login is over, or began long ago; begin again")
        if error or not code:
            raise LoginRefused("the provider let nobody in; begin again")
        assert access.oidc is not None
        if iss and iss != access.oidc.issuer:
            raise LoginRefused("another provider answered; begin again")
        nonce, verifier, back = begun
        person = provider.finish(code, nonce=nonce, verifier=verifier)
        # A page and no redirect: after one that began at the provider, browsers leave out a cookie that is Strict.
        response = page(request, "logged_in.html", to=back or first_page(request, person.scopes))
        logins.let_in(request, response, person, "oidc")
        response.delete_cookie(cookie, secure=access.secure, httponly=True, samesite="lax")
        return response
