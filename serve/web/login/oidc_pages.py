"""The two addresses of a login at a provider: where it begins, and where the browser comes back to."""

from hmac import compare_digest
from time import time

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from demur.serve.access.oidc import LOGIN_MINUTES, Provider, Seal, use_state
from demur.serve.access.sessions import LoginRefused
from demur.serve.config.access import AccessConfig
from demur.serve.web.login.login import Logins, Page, first_page, way_back
from demur.traffic.database import Database
from demur.traffic.log import draw_key

LONGEST_BACK = 1000
"""Characters of a path that a cookie keeps; browsers drop a cookie of more than 4,096."""


def add_oidc(pages: APIRouter, page: Page, logins: Logins, access: AccessConfig, database: Database) -> None:
    """Add `/login/oidc` and `/login/oidc/callback`."""
    assert access.oidc is not None
    provider = Provider(access.oidc, f"{access.url}/review/login/oidc/callback")
    cookie = f"{access.cookie}-login"
    with database.transaction() as connection:
        seal = Seal(draw_key(connection))

    @pages.get("/login/oidc")
    def begin(request: Request, back: str = "") -> Response:
        with logins.limits.at_provider(logins.address_of(request)):
            begun = provider.begin()
        kept = seal.closed(begun, back=way_back(request, back)[:LONGEST_BACK], now=time())
        response = RedirectResponse(begun.address, status_code=303)
        # Lax, because the way back begins on a page of the provider; it only ties what comes back to this browser
        response.set_cookie(
            cookie, kept, max_age=LOGIN_MINUTES * 60, secure=access.secure, httponly=True, samesite="lax"
        )
        return response

    @pages.get("/login/oidc/callback")
    def come_back(request: Request, state: str = "", code: str = "", iss: str = "", error: str = "") -> Response:
        awaited = seal.opened(request.cookies.get(cookie, ""), now=time())
        if awaited is None or not compare_digest(awaited.state.encode(), state.encode()):
            raise LoginRefused("this login did not begin in this browser, or long ago; begin again")
        with logins.limits.at_provider(logins.address_of(request)):
            with database.transaction() as connection:
                if not use_state(connection, state):
                    raise LoginRefused("this login is over, or began long ago; begin again")
            if error or not code:
                raise LoginRefused("the provider let nobody in; begin again")
            assert access.oidc is not None
            if iss and iss != access.oidc.issuer:
                raise LoginRefused("another provider answered; begin again")
            person = provider.finish(code, nonce=awaited.nonce, verifier=awaited.verifier)
        # A page and no redirect: after one that began at the provider, browsers leave out a cookie that is Strict.
        to = way_back(request, awaited.back) or first_page(request, person.scopes)
        response = page(request, "logged_in.html", to=to)
        logins.let_in(request, response, person, "oidc")
        response.delete_cookie(cookie, secure=access.secure, httponly=True, samesite="lax")
        return response
