"""Asking somebody for their name, where it matters who they are."""

from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Form, Request, Response
from fastapi.responses import RedirectResponse

from demur.serve.access.caller import access_is_on
from demur.serve.access.names import as_name
from demur.serve.web.shared.look import beside, root_of
from demur.serve.web.shared.visitor import COOKIE, NoReviewer


def add_hello(app: FastAPI, pages: APIRouter, page: Callable[..., Response], *, back_to: str) -> None:
    """Ask with the template hello.html wherever `NoReviewer` is raised, and at /hello. Who has told their name goes on
    to the page that asked for it where its path begins with `back_to`, else to the first page."""

    @app.exception_handler(NoReviewer)
    async def ask_for_name(request: Request, _error: Exception) -> Response:
        return page(request, "hello.html", back=request.url.path if request.method == "GET" else "")

    @pages.get("/hello")
    def who(request: Request) -> Response:
        if access_is_on(request.scope):
            return RedirectResponse(f"{beside(request, 'review')}/login", status_code=303)
        return page(request, "hello.html", back="")

    @pages.post("/hello")
    def hello(request: Request, name: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "") -> Response:
        if access_is_on(request.scope):
            raise NoReviewer("your name is that of your login, and cannot be changed")
        known = as_name(name)
        if known is None:
            raise NoReviewer
        prefix = root_of(request)
        path = back.removeprefix(prefix) if back.startswith(f"{prefix}{back_to}") else "/"
        here = path.lstrip("/\\")  # with two of them it would be the name of another host
        response = RedirectResponse(f"{prefix}/{here}", status_code=303)
        response.set_cookie(COOKIE, quote(known), max_age=365 * 86400, httponly=True, samesite="strict")
        return response
