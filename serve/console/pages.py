"""The review pages: the queue, one case, and what a person can do with it."""

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import quote, unquote
from uuid import UUID

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, select_autoescape

from review.cases import CaseNotFound, Filter
from review.item import Status
from review.outbox import DeliveryNotFound
from review.queue import ClaimLost, NotYours
from serve.console.desk import Desk
from serve.console.gauges import add_metrics_route
from serve.console.overview import add_overview_routes
from serve.console.visitor import COOKIE, NoReviewer
from serve.console.webhook_pages import add_webhook_routes
from serve.errors import status_of
from serve.inputs import InvalidRequest, picture
from serve.task import LETTERS
from traffic import log
from traffic.database import Database, DatabaseUnavailable
from traffic.outcomes import the_one_that_counts
from traffic.record import Answer, Record

PER_PAGE = 50
MANY_LABELS = 60
"""With more labels than this a case offers the likely ones, and the others by name."""

SHOWN = {
    "open": (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION),
    "waiting": (Status.WAITING, Status.ADJUDICATION),
    "claimed": (Status.CLAIMED, Status.ANSWERED),
    "resolved": (Status.RESOLVED, Status.EXPIRED, Status.WITHDRAWN),
}

BRIEF = 80
"""Characters of a text in the queue."""


def add_pages(app: FastAPI, desk: Desk, database: Database) -> None:
    """Add the pages, under whatever prefix the application is mounted."""
    config = desk.config
    pages = Environment(
        loader=PackageLoader("serve.console"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["age"] = age
    pages.filters["said"] = said
    pages.filters["in_turn"] = in_turn
    pages.filters["brief"] = brief

    def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        html = pages.get_template(template).render(
            root=request.scope.get("root_path", ""),
            reviewer=reviewer_of(request),
            now=datetime.now(UTC),
            **values,
        )
        return HTMLResponse(html, status, {"Cache-Control": "no-store"})

    def to(request: Request, path: str) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}{path}", status_code=303)

    @app.exception_handler(NoReviewer)
    async def ask_for_name(request: Request, _error: Exception) -> Response:
        return page(request, "hello.html", back=request.url.path if request.method == "GET" else "")

    async def tell(request: Request, error: Exception) -> Response:
        return page(request, "trouble.html", status_of(error), message=str(error))

    for kind in (ClaimLost, NotYours, CaseNotFound, DeliveryNotFound, InvalidRequest, DatabaseUnavailable):
        app.add_exception_handler(kind, tell)

    @app.get("/")
    def list_cases(request: Request, show: str = "open", page_number: int = 1) -> Response:
        name = known_reviewer(request)
        statuses = SHOWN.get(show, SHOWN["open"])
        page_number = max(1, page_number)
        counts = desk.backlog(name)
        found = desk.listed(name, Filter(statuses=statuses), limit=PER_PAGE + 1, offset=(page_number - 1) * PER_PAGE)
        with database.transaction() as connection:
            records = log.find(connection, [item.record_id for item in found])
        return page(
            request,
            "queue.html",
            counts=counts,
            cases=[(item, records[item.record_id]) for item in found[:PER_PAGE]],
            more=len(found) > PER_PAGE,
            page_number=page_number,
            show=show,
            mine=lambda item: item.status is Status.CLAIMED and item.claimed_by == name,
        )

    @app.post("/hello")
    def hello(request: Request, name: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "") -> Response:
        name = " ".join(name.split())[:100]
        if not name.isprintable() or not name:
            raise NoReviewer
        prefix = request.scope.get("root_path", "")
        response = to(request, back.removeprefix(prefix) if back.startswith(f"{prefix}/cases/") else "/")
        response.set_cookie(COOKIE, quote(name), max_age=365 * 86400, httponly=True, samesite="strict")
        return response

    @app.post("/next")
    def take_next(request: Request) -> Response:
        name = known_reviewer(request)
        claim = desk.claim_next(name)
        return to(request, f"/cases/{claim.case_id}" if claim else "/")

    @app.get("/cases/{id}")
    def show_case(request: Request, id: UUID) -> Response:
        name = known_reviewer(request)
        sight = desk.see(name, id)
        item, record, value, told = sight.case, sight.record, sight.value, sight.outcomes
        image = picture(value)
        model = config.models.get(record.model)
        options = options_of(value)
        return page(
            request,
            "case.html",
            item=item,
            record=record,
            image=base64.b64encode(image).decode() if image else None,
            text=value if isinstance(value, str) else None,
            messages=value.get("messages") if isinstance(value, dict) else None,
            question=value.get("question") if isinstance(value, dict) else None,
            options=options,
            writes=model is not None and model.task.writes,
            gone=value is None,
            outcome=the_one_that_counts(told, config.precedence(record.model)),
            labels=model.task.labels[: len(options) or None] if model else (),
            exclusive=model.task.exclusive if model else True,
            tree=model is not None and model.task.tree is not None,
            offered=offered(model.task.labels, record) if model else (),
            mine=sight.mine,
            shown=sight.shown,
        )

    @app.post("/cases/{id}/claim")
    def claim(request: Request, id: UUID) -> Response:
        desk.claim(known_reviewer(request), id)
        return to(request, f"/cases/{id}")

    @app.post("/cases/{id}/release")
    def release(request: Request, id: UUID, token: Annotated[int, Form()]) -> Response:
        desk.release(known_reviewer(request), id, token)
        return to(request, "/")

    @app.post("/cases/{id}/answer")
    def answer(
        request: Request,
        id: UUID,
        token: Annotated[int, Form()],
        label: Annotated[list[str] | None, Form()] = None,
        then: Annotated[str, Form()] = "list",
    ) -> Response:
        name = known_reviewer(request)
        model = config.models.get(desk.see(name, id).case.model)
        told = [one for one in label or [] if one.strip()]
        exclusive = model is not None and model.task.exclusive
        if exclusive and len(told) != 1:
            raise InvalidRequest("choose one label")
        desk.answer(name, id, token, label=told[0] if exclusive else told)
        return take_next(request) if then == "next" else to(request, "/")

    def lead_of(request: Request) -> str:
        desk.check_leads(name := known_reviewer(request))
        return name

    add_webhook_routes(app, database, lead_of=lead_of, page=page)
    add_overview_routes(app, config.review, database, lead_of=lead_of, page=page)
    add_metrics_route(app, database, list(config.models))


def known_reviewer(request: Request) -> str:
    name = reviewer_of(request)
    if not name:
        raise NoReviewer
    return name


def reviewer_of(request: Request) -> str:
    return unquote(request.cookies.get(COOKIE, ""))


def said(answer: Answer | None) -> str:
    """An answer in words."""
    if answer is None:
        return "none"
    return answer if isinstance(answer, str) else ", ".join(answer) or "no label"


def brief(record: Record) -> str:
    """The prediction in a line of the queue."""
    if record.reply is None:
        return said(record.prediction)
    text = " ".join(record.reply["text"].split())
    return text if len(text) <= BRIEF else f"{text[:BRIEF]}…"


def options_of(value: Any) -> list[tuple[str, str]]:
    """The options of a question, each with its letter; empty for any other input."""
    options = value.get("options") if isinstance(value, dict) else None
    return list(zip(LETTERS, options, strict=False)) if isinstance(options, list) else []


def in_turn(steps: Sequence[Mapping[str, Any]]) -> str:
    """The models of a cascade that were asked, each with its confidence."""
    return ", ".join(
        f"{step['model']} {'unknown' if step['confidence'] is None else format(step['confidence'], '.2f')}"
        for step in steps
    )


def offered(labels: Sequence[str], record: Record) -> list[str]:
    """Labels to tick, in the order of the task: all of them, or the likely ones where there are very many."""
    if len(labels) <= MANY_LABELS:
        return list(labels)
    likely = {*record.top_labels, *record.prediction_set}
    return [label for label in labels if label in likely]


def age(since: datetime, now: datetime) -> str:
    """How long ago, in the largest unit that says something."""
    seconds = max(0.0, (now - since).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
