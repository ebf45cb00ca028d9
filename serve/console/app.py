"""The console: the review API, the pages over it, and how both tell what went wrong."""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from review.queue import ClaimLost
from serve.config.file import Config
from serve.console import api, overview
from serve.console.desk import Desk
from serve.console.exchange_routes import add_exchange_routes
from serve.console.pages import add_pages
from serve.console.review_wire import draft_json
from serve.console.visitor import only_from_here, only_storable, visitor_of
from serve.errors import STATUS, problem_json, status_of
from serve.gateway.http import describe, in_words, plain_problem, problem_response
from serve.inputs import InvalidRequest
from serve.wire import dump
from traffic.database import Database
from traffic.log import RecordNotFound

log = logging.getLogger("demur.console")

OF_FASTAPI = (RequestValidationError, WebSocketRequestValidationError, HTTPException)
"""What an application tells in its own way unless it is told otherwise."""

Tell = Callable[[Request, Exception], Any]


def console_app(config: Config, database: Database) -> FastAPI:
    """The console as an ASGI application, under whatever prefix it is mounted."""
    desk = Desk(config, database)
    app: FastAPI = FastAPIOffline(
        title="demur review",
        description=api.DESCRIPTION,
        version="1",
        docs_url="/docs",
        redoc_url=None,
        dependencies=[Depends(only_from_here), Depends(only_storable)],
    )
    api.add_api(app, desk)
    add_exchange_routes(app, desk)
    add_pages(app, desk, database)
    add_problems(app, desk)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def add_problems(app: FastAPI, desk: Desk) -> None:
    """Tell what goes wrong as JSON under /v1/. Elsewhere it is told by the page that was added for it before, or by
    that for `InvalidRequest`."""
    pages: dict[Any, Tell] = dict(app.exception_handlers)

    def teller(kind: type[Exception]) -> Tell:
        page = pages[InvalidRequest] if kind in OF_FASTAPI else pages.get(kind, pages[InvalidRequest])

        async def tell(request: Request, error: Exception) -> Response:
            if isinstance(error, RequestValidationError):
                error = in_words(error)
            if status_of(error) == 500 and not isinstance(error, HTTPException):
                log.error("%s %s failed", request.method, request.url.path, exc_info=error)
            if _for_machines(request):
                return await run_in_threadpool(_problem, request, error, desk)
            response: Response = await page(request, _for_people(request, error))
            return response

        return tell

    for kind in {*STATUS, *pages, *OF_FASTAPI, Exception}:
        app.add_exception_handler(kind, teller(kind))


def _for_machines(request: Request) -> bool:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", "")).startswith("/v1/")


def _problem(request: Request, error: Exception, desk: Desk) -> Response:
    if isinstance(error, HTTPException):
        return plain_problem(request, error)
    if not isinstance(error, ClaimLost):
        return problem_response(error)
    draft = desk.draft(visitor_of(request), UUID(request.path_params["id"]))
    told = {**problem_json(error), "kept": draft is not None, "draft": draft_json(draft)}
    return Response(dump({"error": told}), status_of(error), media_type="application/json")


def _for_people(request: Request, error: Exception) -> Exception:
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return RecordNotFound(f"there is nothing at {request.url.path}")
        return InvalidRequest(f"{request.method} is not possible at {request.url.path}")
    if status_of(error) == 500:
        return RuntimeError(problem_json(error)["message"])
    return error


def _openapi(app: FastAPI) -> dict[str, Any]:
    """The document of the API; pages are for people."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, servers=app.servers
        )
        document["paths"] = {path: told for path, told in document["paths"].items() if path.startswith("/v1/")}
        describe(document["components"]["schemas"], *api.TAKEN)
        overview.say_unknown(document["components"]["schemas"])
        app.openapi_schema = document
    return app.openapi_schema
