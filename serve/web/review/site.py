"""What the review pages and their API share: the service behind them, how a page is rendered, and who asks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment

from demur.serve.access.caller import access_is_on
from demur.serve.config.file import Config
from demur.serve.contract.wire import ProblemResponse, dump
from demur.serve.web.review import review_wire as wire
from demur.serve.web.review.access_log import sees_access_log
from demur.serve.web.review.label_search import search_of
from demur.serve.web.review.service import ReviewService
from demur.serve.web.review.words import FILTERS
from demur.serve.web.shared.bodies import whole_body
from demur.serve.web.shared.header import header_of
from demur.serve.web.shared.look import LOGIN_SCRIPT, beside, our_files, page_response, root_of, templates_of
from demur.serve.web.shared.visitor import NoReviewer, visitor_of
from demur.traffic.database import Database

SCRIPTS = (
    "early.js",
    "review.js",
    "case.js",
    "desk.js",
    "desk.css",
    "forward.js",
    "guard.js",
    "keys.js",
    "labels.js",
    "sending.js",
    "reply.js",
    "reply.css",
    "changing.js",
    "grid.js",
    "grid.css",
)

FILES = our_files(*(Path(__file__).parent / "templates" / name for name in SCRIPTS), LOGIN_SCRIPT)

MEANINGS = {
    400: "The body is not JSON",
    401: "Nobody knows who you are; the message says how to tell",
    403: "You may not see this case, or may not do this with it",
    404: "There is no such case",
    408: "The body did not come in time (`limits` in the configuration)",
    409: "The claim does not hold, or no longer; what was typed is kept",
    413: "More than `limits` in the configuration allows",
    422: "Something in the request does not fit; the message says what",
    503: "Not possible right now, and nothing was changed; try again after `Retry-After` seconds",
}


@dataclass(frozen=True, kw_only=True)
class ReviewSite:
    """The application's service, configuration and database, as its routes use them."""

    reviews: ReviewService
    config: Config
    database: Database
    templates: Environment
    tasks: Mapping[str, dict[str, Any]]
    """What the API says of the task of each model."""

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Respond with a template of `serve/web/review/templates`."""
        return page_response(self.html(request, template, **values), status, pictures=template == "overview.html")

    def html(self, request: Request, template: str, **values: Any) -> str:
        """Render a template of `serve/web/review/templates`."""
        name, review = name_of(request), self.config.review
        scope = review.scope_of(name) if name else None
        return self.templates.get_template(template).render(
            **header_of(request, top=beside(request, "")[:-1], here="Review", name=name),
            leads=review.leads(name),
            decides=scope is not None and scope.adjudicates,
            sees_access_log=sees_access_log(request) if access_is_on(request.scope) else review.leads(name),
            now=datetime.now(UTC),
            **values,
        )

    def lead_of(self, request: Request) -> str:
        """The name of whoever asks, where they lead reviews; else raise `NoReviewer` or `NotYours`."""
        self.reviews.check_leads(name := visitor_of(request))
        return name


def add_site(app: FastAPI, reviews: ReviewService, database: Database) -> ReviewSite:
    """Let the routes of an application find its site."""
    templates = templates_of("demur.serve.web.review", FILES)
    templates.filters.update(FILTERS)
    config = reviews.config
    tasks = {
        name: wire.task_json(name, model.task, config.review.codes_of(name)) for name, model in config.models.items()
    }
    site = ReviewSite(reviews=reviews, config=config, database=database, templates=templates, tasks=tasks)
    app.state.site = site
    tables = [model.task.table for model in config.models.values() if model.task.sparse]
    if tables:  # whoever searches first need not wait
        Thread(target=lambda: [search_of(table) for table in tables], name="label-search", daemon=True).start()
    return site


async def site_of(request: Request) -> ReviewSite:
    site: ReviewSite = request.app.state.site
    return site


async def reviews_of(request: Request) -> ReviewService:
    return (await site_of(request)).reviews


async def read_body(request: Request) -> bytes:
    return await whole_body(request, (await site_of(request)).config.limits.body_bytes)


Site = Annotated[ReviewSite, Depends(site_of)]
Reviews = Annotated[ReviewService, Depends(reviews_of)]
Content = Annotated[bytes, Depends(read_body)]
Name = Annotated[str, Depends(visitor_of)]
Word = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]


def name_of(request: Request) -> str:
    """Who asks; empty for somebody who has not said."""
    try:
        return visitor_of(request)
    except NoReviewer:
        return ""


def to(request: Request, path: str, **query: object) -> Response:
    """Lead a browser to another page of this application."""
    known = {name: str(value) for name, value in query.items() if value}
    return RedirectResponse(f"{root_of(request)}{path}{'?' if known else ''}{urlencode(known)}", status_code=303)


def reply(value: Any, status: int = 200) -> Response:
    """JSON that nobody keeps: a case looks different a second later."""
    return Response(dump(value), status, {"Cache-Control": "no-store"}, "application/json")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What the document says about these statuses."""
    return {
        status: {
            "model": wire.LostClaimResponse if status == 409 else ProblemResponse,
            "description": MEANINGS[status],
        }
        for status in statuses
    }
