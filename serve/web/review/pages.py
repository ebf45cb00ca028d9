"""The review pages: the queue, one case, and what a person can do with it."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, FastAPI, Form, Query, Request, Response

from demur.review.cases import CaseNotFound
from demur.review.changes import MoreFit
from demur.review.outbox import DeliveryNotFound
from demur.review.progress import QueueBucket
from demur.review.queue import ClaimLost, NotYours
from demur.review.reopening import LAST
from demur.review.search import SearchTooWide, id_of
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.errors import status_of
from demur.serve.web.login.login import Logins, add_login
from demur.serve.web.login.oidc_pages import add_oidc
from demur.serve.web.review.access_log import add_access_log
from demur.serve.web.review.answering import COMMANDS, answering, chosen_labels
from demur.serve.web.review.case_changes import pages as case_changes
from demur.serve.web.review.case_changes import values_for_leads
from demur.serve.web.review.case_list import ListQuery, cases_for, only_one
from demur.serve.web.review.case_page import case_values, last_answer, midnight
from demur.serve.web.review.desk import add_desk, desk_again
from demur.serve.web.review.gauges import QueueCollector
from demur.serve.web.review.grid_pages import has_grid
from demur.serve.web.review.grid_pages import router as grid
from demur.serve.web.review.in_place import add_in_place
from demur.serve.web.review.overview import add_overview_routes
from demur.serve.web.review.replies import changed_text
from demur.serve.web.review.showing import glance
from demur.serve.web.review.similar_cases import router as similar_cases
from demur.serve.web.review.site import FILES, ReviewSite, Site, to
from demur.serve.web.review.webhook_pages import add_webhook_routes
from demur.serve.web.shared.hello import add_hello
from demur.serve.web.shared.look import add_files, root_of
from demur.serve.web.shared.metrics import add_metrics_route
from demur.serve.web.shared.storable import FormText
from demur.serve.web.shared.visitor import visitor_of
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import Answer

MOST_GROUPS = 200
"""Groups to choose from: those with the most open cases. Callers name groups, and may name very many."""

router = APIRouter(include_in_schema=False)


def add_pages(app: FastAPI, site: ReviewSite) -> None:
    """Add the pages, under whatever prefix the application is mounted."""
    config, database, page = site.config, site.database, site.page
    for kind in (
        ClaimLost,
        MoreFit,
        NotYours,
        CaseNotFound,
        DeliveryNotFound,
        InvalidRequest,
        SearchTooWide,
        DatabaseUnavailable,
    ):
        app.add_exception_handler(kind, _show_trouble)
    before = APIRouter(include_in_schema=False)
    add_files(before, FILES)
    add_hello(app, before, page, back_to="/cases/")
    if config.access is not None and config.access.mode == "keys":
        logins, oidc = Logins(config.access, database), config.access.oidc
        add_login(app, before, page, logins, provider=oidc.title if oidc else None)
        if oidc is not None:
            add_oidc(before, page, logins, config.access, database)
    app.include_router(before)
    app.include_router(router)
    app.include_router(case_changes)
    app.include_router(similar_cases)
    app.include_router(grid)
    add_in_place(app)
    add_desk(app)
    add_webhook_routes(app, database, lead_of=site.lead_of, page=page)
    add_access_log(app, database, lead_of=site.lead_of, page=page)
    add_overview_routes(app, config.review, database, lead_of=site.lead_of, page=page)
    add_metrics_route(app, [QueueCollector(database, list(config.models))])


async def _show_trouble(request: Request, error: Exception) -> Response:
    site: ReviewSite = request.app.state.site
    kept = isinstance(error, ClaimLost | InvalidRequest) and request.path_params.get("id")
    return site.page(request, "trouble.html", status_of(error), message=str(error), at=kept)


def _next_case(
    request: Request, site: ReviewSite, name: str, model: str, after: UUID | None = None, *, again: bool = False
) -> Response:
    claim = site.reviews.claim_next(name, model=model or None, again=again)
    if claim is None:
        return to(request, "/", model=model, after=after, nothing="true")
    return to(request, f"/cases/{claim.case_id}", model=model, after=after)


@router.get("/")
def list_cases(
    request: Request,
    site: Site,
    query: Annotated[ListQuery, Depends()],
    after: UUID | None = None,
    nothing: bool = False,
    gave_back: UUID | None = None,
    find: bool = False,
) -> Response:
    """The list of cases; of an id that was looked for, the case itself. `find`: somebody came to look for one."""
    name, model = visitor_of(request), query.model
    listed = cases_for(site, name, ListQuery(show="all", q=query.q) if id_of(query.q) else query)
    if found := only_one(listed, query):
        return to(request, f"/cases/{found}")
    shelves = site.reviews.shelves(name)
    largest, more_groups = _largest_groups(shelves)
    inputs = site.reviews.glances(name, listed.cases)
    root = root_of(request)
    for_leads = values_for_leads(site, name, query) if listed.cases and site.config.review.leads(name) else {}
    return site.page(
        request,
        "queue.html",
        counts=site.reviews.backlog(name),
        progress=site.reviews.progress(name, midnight()),
        pace=site.reviews.pace(name),
        cases=[(item, glance(inputs.get(item.record_id))) for item in listed.cases],
        more=listed.more,
        trouble=listed.trouble,
        query=query,
        models=sorted({shelf.model for shelf in shelves} | ({model} if model else set())),
        groups=sorted({*largest, *([query.group] if query.group else [])}),
        groups_left_out=more_groups,
        address=partial(query.address, root),
        sorted_by=partial(query.sorted_by, root),
        last=last_answer(site, name, after),
        nothing=nothing,
        given_back=site.reviews.given_back(name, model=model or None) if nothing else None,
        gave_back=gave_back,
        find=find,
        back_after=site.config.review.give_back_seconds,
        keys=answering(None).keys,
        commands=COMMANDS,
        shelf=site.reviews.shelf(name),
        has_grid=has_grid(site, model, [inputs.get(item.record_id) for item in listed.cases if item.model == model]),
        **for_leads,
    )


@router.post("/next")
def take_next(request: Request, site: Site, model: FormText = "", again: Annotated[bool, Form()] = False) -> Response:
    return _next_case(request, site, visitor_of(request), model, again=again)


@router.get("/cases/{id}")
def show_case(
    request: Request,
    site: Site,
    id: UUID,
    model: str = "",
    after: UUID | None = None,
    find: str = "",
    label: Annotated[list[str] | None, Query()] = None,
    comment: str = "",
) -> Response:
    """The page of one case. A browser without scripts looks labels up with `find`, and sends along what is ticked."""
    name = visitor_of(request)
    sight = site.reviews.see(name, id, through="page")
    typed = {**({"label": label} if label else {}), **({"comment": comment} if comment else {})}
    last = last_answer(site, name, after) if after != id else None
    values = case_values(site, sight, name, model=model, last=last, find=find, typed=typed)
    return site.page(request, "case.html", **values)


@router.post("/cases/{id}/claim")
def claim(request: Request, site: Site, id: UUID) -> Response:
    site.reviews.claim(visitor_of(request), id)
    return to(request, f"/cases/{id}")


@router.post("/cases/{id}/release")
def release(request: Request, site: Site, id: UUID, token: Annotated[int, Form()], model: FormText = "") -> Response:
    site.reviews.release(visitor_of(request), id, token)
    return to(request, "/", model=model, gave_back=id)


@router.post("/cases/{id}/skip")
def skip(
    request: Request,
    site: Site,
    id: UUID,
    token: Annotated[int, Form()],
    reason: FormText = "",
    model: FormText = "",
) -> Response:
    """Give a case back for good, and go on with the next."""
    name = visitor_of(request)
    site.reviews.skip(name, id, token, reason)
    return _next_case(request, site, name, model)


@router.get("/answers")
def show_answers(request: Request, site: Site) -> Response:
    """What this person answered last."""
    name = visitor_of(request)
    answers = site.reviews.last_answers(name)
    inputs = site.reviews.glances(name, [one.case for one in answers])
    return site.page(
        request,
        "answers.html",
        at_answers=True,
        answers=[(one, site.reviews.record(one.case), glance(inputs.get(one.case.record_id))) for one in answers],
        most=LAST,
        keys=answering(None).keys,
        commands=COMMANDS,
    )


@router.post("/cases/{id}/reopen")
def reopen(request: Request, site: Site, id: UUID, why: FormText = "") -> Response:
    site.reviews.reopen(visitor_of(request), id, why)
    return to(request, f"/cases/{id}")


@router.post("/cases/{id}/undo")
def undo(
    request: Request,
    site: Site,
    id: UUID,
    token: Annotated[int, Form()],
    instead_of: Annotated[UUID | None, Form()] = None,
    model: FormText = "",
    desk: Annotated[bool, Form()] = False,
) -> Response:
    """Take the last answer back. `instead_of`: the case that came after it, which is free for all again. `desk`: it was
    given there, and the case is shown there again."""
    site.reviews.undo(visitor_of(request), id, token, instead_of=instead_of)
    return desk_again(request, id, model) if desk else to(request, f"/cases/{id}", model=model)


@router.post("/cases/{id}/withdraw")
def withdraw(request: Request, site: Site, id: UUID, why: FormText = "") -> Response:
    if not why.strip():
        raise InvalidRequest("why: say why nobody need look at it")
    site.reviews.withdraw(visitor_of(request), id, why.strip())
    return to(request, f"/cases/{id}")


@router.post("/cases/{id}/answer")
def answer(
    request: Request,
    site: Site,
    id: UUID,
    token: Annotated[int, Form()],
    label: Annotated[list[FormText] | None, Form()] = None,
    none: Annotated[bool, Form()] = False,
    reason: FormText = "",
    cannot: Annotated[bool, Form()] = False,
    other_reason: FormText = "",
    comment: FormText = "",
    model: FormText = "",
    text: FormText = "",
    code: Annotated[list[FormText] | None, Form()] = None,
    corrected: Annotated[bool, Form()] = False,
) -> Response:
    """What the script does through the API, for a browser without it. What is refused is kept as a draft."""
    name = visitor_of(request)
    labels, why = ["wrong"] if corrected else label or [], (other_reason if cannot else reason).strip() or None
    draft = {"label": labels or None, "reason": why or other_reason or None, "comment": comment or None}
    draft |= {"text": text or None, "codes": code}
    try:
        told: Answer | None = None
        written: str | None = None
        if not cannot and why is None:
            sight = site.reviews.see(name, id)
            served = site.config.models.get(sight.case.model)
            told = chosen_labels(labels, none=none, exclusive=served is None or served.task.exclusive)
            written = changed_text(text, sight.record.reply)
            if corrected and not (written or code):
                raise InvalidRequest("text: it is still that of the model; change it, or say that the reply is right")
        site.reviews.answer(
            name,
            id,
            token,
            label=told,
            reason=why,
            comment=comment.strip() or None,
            text=written,
            codes=code or () if why is None else (),
        )
    except InvalidRequest:
        site.reviews.heartbeat(name, id, token, draft)
        raise
    return _next_case(request, site, name, model, id)


def _largest_groups(shelves: Sequence[QueueBucket]) -> tuple[list[str], int]:
    """The groups with the most open cases, over all models, and how many there are beside them."""
    cases: Counter[str] = Counter()
    for shelf in shelves:
        if shelf.group:
            cases[shelf.group] += shelf.open
    return [group for group, _ in cases.most_common(MOST_GROUPS)], max(0, len(cases) - MOST_GROUPS)
