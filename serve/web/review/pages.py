"""The review pages: the queue, one case, and what a person can do with it."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, FastAPI, Form, Query, Request, Response

from demur.review.cases import CaseNotFound, Filter
from demur.review.item import ENDED, Status
from demur.review.outbox import DeliveryNotFound
from demur.review.progress import QueueBucket
from demur.review.queue import ClaimLost, NotYours
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.errors import status_of
from demur.serve.web.login.login import Logins, add_login
from demur.serve.web.login.oidc_pages import add_oidc
from demur.serve.web.review.access_log import add_access_log
from demur.serve.web.review.answering import COMMANDS, REASONS, answering, chosen_labels
from demur.serve.web.review.gauges import QueueCollector
from demur.serve.web.review.label_search import search_of
from demur.serve.web.review.offered import labels_on_page, offered_labels
from demur.serve.web.review.overview import add_overview_routes
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.showing import glance, showing
from demur.serve.web.review.site import FILES, ReviewSite, Site, to
from demur.serve.web.review.small_picture import small_picture
from demur.serve.web.review.webhook_pages import add_webhook_routes
from demur.serve.web.shared.hello import add_hello
from demur.serve.web.shared.look import add_files, root_of
from demur.serve.web.shared.metrics import add_metrics_route
from demur.serve.web.shared.storable import FormText
from demur.serve.web.shared.visitor import visitor_of
from demur.traffic.database import DatabaseUnavailable
from demur.traffic.record import Answer

PER_PAGE = 50

MOST_GROUPS = 200
"""Groups to choose from: those with the most open cases. Callers name groups, and may name very many."""

DEEPEST = 200
"""Pages that can be leafed through; beyond them one filters."""

SHOWN: dict[str, tuple[Status, ...]] = {
    "open": (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION),
    "waiting": (Status.WAITING,),
    "disputed": (Status.ADJUDICATION,),
    "claimed": (Status.CLAIMED, Status.ANSWERED),
    "done": ENDED,
}
"""The states that each tab of the queue is about."""

router = APIRouter(include_in_schema=False)


def add_pages(app: FastAPI, site: ReviewSite) -> None:
    """Add the pages, under whatever prefix the application is mounted."""
    config, database, page = site.config, site.database, site.page
    for kind in (ClaimLost, NotYours, CaseNotFound, DeliveryNotFound, InvalidRequest, DatabaseUnavailable):
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


def _last_answer(site: ReviewSite, name: str, after: UUID | None) -> VisibleCase | None:
    """The case that this person answered just before, as they may see it now."""
    if after is None:
        return None
    try:
        sight = site.reviews.see(name, after)
    except (CaseNotFound, NotYours):
        return None
    return sight if sight.own else None


@router.get("/")
def list_cases(
    request: Request,
    site: Site,
    show: str = "open",
    model: str = "",
    group: str = "",
    mine: bool = False,
    overdue: bool = False,
    page_number: int = 1,
    after: UUID | None = None,
    nothing: bool = False,
    gave_back: UUID | None = None,
) -> Response:
    name = visitor_of(request)
    show = show if show in SHOWN else "open"
    page_number = min(max(1, page_number), DEEPEST)
    which = Filter(
        statuses=SHOWN[show],
        model=model or None,
        group=group or None,
        overdue=overdue,
        claimed_by=name if mine else None,
    )
    found = site.reviews.listed(name, which, limit=PER_PAGE + 1, offset=(page_number - 1) * PER_PAGE)
    listed, shelves = found[:PER_PAGE], site.reviews.shelves(name)
    largest, more_groups = _largest_groups(shelves)
    inputs = site.reviews.glances(name, listed)
    chosen = {
        "show": show if show != "open" else "",
        "model": model,
        "group": group,
        "mine": "true" if mine else "",
        "overdue": "true" if overdue else "",
    }

    def address(**changes: object) -> str:
        query = {key: str(value) for key, value in {**chosen, **changes}.items() if value}
        return f"{root_of(request)}/{'?' if query else ''}{urlencode(query)}"

    return site.page(
        request,
        "queue.html",
        counts=site.reviews.backlog(name),
        progress=site.reviews.progress(name, midnight()),
        cases=[(item, glance(inputs.get(item.record_id))) for item in listed],
        more=len(found) > PER_PAGE and page_number < DEEPEST,
        page_number=page_number,
        show=show,
        model=model,
        group=group,
        mine=mine,
        overdue=overdue,
        models=sorted({shelf.model for shelf in shelves} | ({model} if model else set())),
        groups=sorted({*largest, *([group] if group else [])}),
        groups_left_out=more_groups,
        address=address,
        last=_last_answer(site, name, after),
        nothing=nothing,
        given_back=site.reviews.given_back(name, model=model or None) if nothing else None,
        gave_back=gave_back,
        back_after=site.config.review.give_back_seconds,
        keys=answering(None).keys,
        commands=COMMANDS,
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
    served = site.config.models.get(sight.case.model)
    input = showing(sight.value)
    draft = {**(sight.draft or {}), **({"label": label} if label else {}), **({"comment": comment} if comment else {})}
    before = [draft["label"]] if isinstance(draft.get("label"), str) else draft.get("label") or []
    sparse = served.task if served is not None and served.task.sparse else None
    found, offered, titles = [], [], {}
    if sparse is not None:
        found = [one.label for one in search_of(sparse.table).find(find)[0]] if find.strip() else []
        offered = offered_labels(sparse.table, sight.record if sight.shown else None, sight.output, before, found)
        own = [said.label for said in (*sight.opinions, *([sight.own] if sight.own else []))]
        titles = sparse.table.titles_of(labels_on_page(sight.record, [sight.case.label, *own, before]))
    way = answering(served.task if served else None, len(input.options), offered)
    return site.page(
        request,
        "case.html",
        sight=sight,
        item=sight.case,
        record=sight.record,
        input=input,
        small=small_picture(input.text) if input.kind == "picture" else None,
        way=way,
        draft=draft,
        before=before,
        find=find,
        found=found,
        titles=titles,
        keys=way.keys,
        commands=COMMANDS,
        reasons=REASONS,
        writes=served is not None and served.task.writes,
        exclusive=served is None or served.task.exclusive,
        ended=sight.case.status in ENDED,
        lease_seconds=site.config.review.lease_seconds,
        model=model,
        last=_last_answer(site, name, after) if after != id else None,
    )


@router.post("/cases/{id}/claim")
def claim(request: Request, site: Site, id: UUID) -> Response:
    site.reviews.claim(visitor_of(request), id)
    return to(request, f"/cases/{id}")


@router.post("/cases/{id}/release")
def release(request: Request, site: Site, id: UUID, token: Annotated[int, Form()], model: FormText = "") -> Response:
    site.reviews.release(visitor_of(request), id, token)
    return to(request, "/", model=model, gave_back=id)


@router.post("/cases/{id}/undo")
def undo(
    request: Request,
    site: Site,
    id: UUID,
    token: Annotated[int, Form()],
    instead_of: Annotated[UUID | None, Form()] = None,
    model: FormText = "",
) -> Response:
    """Take the last answer back. `instead_of`: the case that came after it, which is free for all again."""
    site.reviews.undo(visitor_of(request), id, token, instead_of=instead_of)
    return to(request, f"/cases/{id}", model=model)


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
) -> Response:
    """What the script does through the API, for a browser without it. What is refused is kept as a draft."""
    name = visitor_of(request)
    labels, why = label or [], (other_reason if cannot else reason).strip() or None
    draft = {"label": labels or None, "reason": why or other_reason or None, "comment": comment or None}
    try:
        told: Answer | None = None
        if not cannot and why is None:
            served = site.config.models.get(site.reviews.see(name, id).case.model)
            told = chosen_labels(labels, none=none, exclusive=served is None or served.task.exclusive)
        site.reviews.answer(name, id, token, label=told, reason=why, comment=comment.strip() or None)
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


def midnight() -> datetime:
    """When today began, where this service runs."""
    return datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
