"""The console: the review API, the pages over it, and how both tell what went wrong."""

import logging
from typing import Any
from uuid import UUID

from fastapi import Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from demur.review.queue import ClaimLost
from demur.serve.access.described import describe_access, describe_refusals
from demur.serve.access.needs import REVIEW
from demur.serve.config.access import AccessConfig
from demur.serve.config.file import Config
from demur.serve.contract.wire import dump
from demur.serve.web.errors import problem_json, status_of
from demur.serve.web.review import api, case_changes, desk, exchange_routes, overview
from demur.serve.web.review.pages import add_pages
from demur.serve.web.review.review_wire import draft_json
from demur.serve.web.review.service import ReviewService
from demur.serve.web.review.site import add_site
from demur.serve.web.shared.bodies import describe
from demur.serve.web.shared.body_limits import add_body_limits
from demur.serve.web.shared.browser_headers import add_browser_headers
from demur.serve.web.shared.cookies import PlainCookies
from demur.serve.web.shared.docs import add_docs
from demur.serve.web.shared.known_queries import only_known
from demur.serve.web.shared.problems import add_problems, problem
from demur.serve.web.shared.storable import only_storable
from demur.serve.web.shared.visitor import visitor_of
from demur.traffic.database import Database

log = logging.getLogger("demur.console")


def console_app(config: Config, database: Database) -> FastAPI:
    """The console as an ASGI application, under whatever prefix it is mounted."""
    app = FastAPI(
        title="demur review",
        description=api.DESCRIPTION,
        version="1",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(only_storable)],
    )
    add_body_limits(app, config.limits)
    add_browser_headers(app)
    app.add_middleware(PlainCookies)
    add_docs(app, of="Review")
    site = add_site(app, ReviewService(config, database), database)
    for routes in (api.router, case_changes.router, desk.api, exchange_routes.router):
        app.include_router(routes, dependencies=[Depends(only_known)])
    add_pages(app, site)
    add_problems(app, log, _problem)
    app.openapi = lambda: _openapi(app, config.access)  # type: ignore[method-assign]
    return app


def _problem(request: Request, error: Exception) -> Response:
    """What went wrong, as JSON: of a lost claim also what was typed."""
    if not isinstance(error, ClaimLost):
        return problem(request, error)
    reviews: ReviewService = request.app.state.site.reviews
    draft = reviews.draft(visitor_of(request), UUID(request.path_params["id"]))
    told = {**problem_json(error), "kept": draft is not None, "draft": draft_json(draft)}
    return Response(dump({"error": told}), status_of(error), media_type="application/json")


def _openapi(app: FastAPI, access: AccessConfig | None) -> dict[str, Any]:
    """The document of the API; pages are for people."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes, servers=app.servers
        )
        document["paths"] = {path: told for path, told in document["paths"].items() if path.startswith("/v1/")}
        describe(document["components"]["schemas"], *api.TAKEN, *case_changes.TAKEN, desk.DecideRequest)
        overview.say_unknown(document["components"]["schemas"])
        describe_refusals(document)
        if access is not None and access.mode == "keys":
            describe_access(document, REVIEW, cookie=access.cookie)
        app.openapi_schema = document
    return app.openapi_schema
