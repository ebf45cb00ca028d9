"""The review API: everything that the pages can do, for machines."""

from dataclasses import asdict
from datetime import UTC, datetime
from math import ceil, isfinite
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from demur.review.changes import MOST_CASES
from demur.review.item import Case
from demur.serve.contract.wire import parse
from demur.serve.web.review import review_wire as wire
from demur.serve.web.review.case_query import CaseQuery
from demur.serve.web.review.label_search import MOST_FOUND
from demur.serve.web.review.site import Content, Name, Reviews, Site, Word, problems, reply
from demur.serve.web.shared.bodies import takes
from demur.serve.web.shared.visitor import COOKIE, HEADER

DESCRIPTION = f"""
Cases on their way to people: what waits, who holds what, what was said.

Say who you are with the header `{HEADER}`, or with the cookie `{COOKIE}` that the pages set; a name with more
than ASCII is percent-encoded. Take a case (`/v1/cases/next`), keep it with heartbeats, answer it. An answer can be
taken back for some seconds; then it counts. A claim that ran out is a 409, and what was typed is kept.
"""

MOST_AT_ONCE = 500
FARTHEST = 10_000_000

TAKEN = (
    wire.NextRequest,
    wire.HeartbeatRequest,
    wire.AnswerRequest,
    wire.TokenRequest,
    wire.UndoRequest,
    wire.SkipRequest,
    wire.ReopenRequest,
    wire.WithdrawRequest,
)
"""Bodies, which are parsed by hand."""

router = APIRouter(tags=["Cases"])


@router.get("/v1/me", response_model=wire.MeView, responses=problems(401, 403), summary="What you may see and do")
def me(name: Name, reviews: Reviews) -> Response:
    scope, leads = reviews.rights(name)
    return reply(
        {
            "name": name,
            "models": scope.models,
            "groups": scope.groups,
            "adjudicates": scope.adjudicates,
            "leads": leads,
        }
    )


@router.get(
    "/v1/backlog",
    response_model=wire.BacklogView,
    responses=problems(401, 403, 503),
    summary="How many cases are open",
)
def backlog(name: Name, reviews: Reviews) -> Response:
    return reply(wire.backlog_json(reviews.backlog(name)))


@router.get(
    "/v1/progress",
    response_model=wire.ProgressView,
    responses=problems(401, 403, 422, 503),
    summary="How far you and the others have come",
)
def progress(
    name: Name,
    reviews: Reviews,
    since: Annotated[AwareDatetime | None, Query(description="By default the last midnight, in UTC.")] = None,
) -> Response:
    start = since or datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    hours = reviews.pace(name).hours_for(reviews.backlog(name).free)
    told = {**asdict(reviews.progress(name, start)), "hours_of_work": hours if isfinite(hours) else None}
    return reply({"since": start, **told})


@router.get(
    "/v1/shelves",
    response_model=wire.ShelfList,
    responses=problems(401, 403, 503),
    summary="Where the open cases are: how many of each model and group",
)
def shelves(name: Name, reviews: Reviews) -> Response:
    return reply({"shelves": [asdict(shelf) for shelf in reviews.shelves(name)]})


@router.get(
    "/v1/cases",
    response_model=wire.CaseList,
    responses=problems(401, 403, 422, 503),
    summary="Cases in the order in which they are worked, then those that have ended; what is looked for, newest first",
)
def listed(
    name: Name,
    reviews: Reviews,
    query: Annotated[CaseQuery, Depends()],
    limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = 50,
    offset: Annotated[int, Query(ge=0, le=FARTHEST)] = 0,
    glance: Annotated[bool, Query(description="With the beginning of each input.")] = False,
    count: Annotated[bool, Query(description=f"Also how many fit, up to {MOST_CASES:,}.")] = False,
) -> Response:
    wanted = query.search(name)
    found = reviews.find(name, wanted, limit=limit + 1, offset=offset)
    fit = reviews.count(name, wanted) if count else None
    inputs = reviews.glances(name, found[:limit]) if glance else {}
    lines = [{**_line(case), "glance": inputs.get(case.record_id)} for case in found[:limit]]
    told = fit if fit is not None and fit <= MOST_CASES else None
    return reply({"cases": lines, "more": len(found) > limit, "count": told})


@router.get(
    "/v1/labels",
    response_model=wire.FoundLabelList,
    responses=problems(401, 403, 422),
    summary="Find labels of a model by typing",
)
def labels(
    name: Name,
    reviews: Reviews,
    model: Word,
    query: Annotated[Word, Query(description="The beginning of a label, or of words in it or its title.")],
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND)] = 20,
) -> Response:
    found, more = reviews.labels_like(name, model, query, limit=limit)
    return reply(wire.labels_json(found, more=more))


@router.get(
    "/v1/cases/{id}",
    response_model=wire.CaseView,
    responses=problems(401, 403, 404, 422, 503),
    summary="A case, as far as you may see it",
)
def see(name: Name, site: Site, id: UUID) -> Response:
    sight = site.reviews.see(name, id, through="api")
    return reply(wire.case_json(sight, name, site.tasks.get(sight.case.model), datetime.now(UTC)))


@router.get(
    "/v1/cases/{id}/events",
    response_model=wire.EventList,
    responses=problems(401, 403, 404, 422, 503),
    summary="Every move of a case, for those who lead",
)
def events(name: Name, reviews: Reviews, id: UUID) -> Response:
    reviews.check_leads(name)
    return reply({"events": wire.events_json(reviews.see(name, id).events)})


@router.post(
    "/v1/cases/next",
    response_model=wire.ClaimView,
    responses={
        204: {
            "description": "Nothing is free that you may answer. `Retry-After`: there are cases that you gave back,"
            " and the first of them comes to you again after so many seconds (`again` takes it now)"
        },
        **problems(400, 401, 403, 408, 413, 422, 503),
    },
    openapi_extra=takes(wire.NextRequest, required=False),
    summary="Take the case that comes first",
)
def take_next(name: Name, reviews: Reviews, content: Content) -> Response:
    asked = parse(wire.NextRequest, content or b"{}")
    claim = reviews.claim_next(name, model=asked.model, again=asked.again)
    if claim is not None:
        return reply(wire.claim_json(claim))
    left = reviews.given_back(name, model=asked.model)
    return Response(status_code=204, headers={"Retry-After": str(ceil(left.seconds))} if left else {})


@router.post(
    "/v1/cases/{id}/claim",
    response_model=wire.ClaimView,
    responses=problems(401, 403, 404, 409, 422, 503),
    summary="Take this case",
)
def claim(name: Name, reviews: Reviews, id: UUID) -> Response:
    return reply(wire.claim_json(reviews.claim(name, id)))


@router.post(
    "/v1/cases/{id}/heartbeat",
    response_model=wire.ClaimView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.HeartbeatRequest),
    summary="Keep a claim, and what you have typed so far",
)
def heartbeat(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    told = parse(wire.HeartbeatRequest, content)
    draft = told.draft.model_dump() if told.draft else None
    return reply(wire.claim_json(reviews.heartbeat(name, id, told.token, draft)))


@router.post(
    "/v1/cases/{id}/answer",
    response_model=wire.AnswerView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.AnswerRequest),
    summary="Say what a case is, or why that cannot be told; the same answer twice is one",
)
def answer(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    told = parse(wire.AnswerRequest, content)
    case = reviews.answer(name, id, told.token, **told.said)
    shown = wire.prediction_json(reviews.record(case), ended=case.ended_at is not None)
    return reply({"case": _line(case), "undo_until": case.settles_at, "prediction": shown})


@router.post(
    "/v1/cases/{id}/undo",
    response_model=wire.ClaimView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.UndoRequest),
    summary="Take your answer back, and hold the case again under a new token",
)
def undo(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    asked = parse(wire.UndoRequest, content)
    return reply(wire.claim_json(reviews.undo(name, id, asked.token, instead_of=asked.instead_of)))


@router.post(
    "/v1/cases/{id}/release",
    status_code=204,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.TokenRequest),
    summary="Give a case back unanswered: others get it at once, you only after a while, or if you claim it",
)
def release(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    reviews.release(name, id, parse(wire.TokenRequest, content).token)
    return Response(status_code=204)


@router.post(
    "/v1/cases/{id}/skip",
    status_code=204,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.SkipRequest),
    summary="Give a case back for good: others get it at once, and it never comes to you by itself again",
)
def skip(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    told = parse(wire.SkipRequest, content)
    reviews.skip(name, id, told.token, told.reason)
    return Response(status_code=204)


@router.get(
    "/v1/answers",
    response_model=wire.OwnAnswerList,
    responses=problems(401, 403, 422, 503),
    summary="Your last 20 answers, and whether you can still change them",
)
def own_answers(name: Name, reviews: Reviews) -> Response:
    now = datetime.now(UTC)
    return reply({"answers": [wire.own_answer_json(one, now) for one in reviews.last_answers(name)]})


@router.post(
    "/v1/cases/{id}/reopen",
    response_model=wire.ClaimView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.ReopenRequest, required=False),
    summary="Take an answer of yours back that counts already, where nobody has built on it, and hold the case again",
)
def reopen(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    return reply(wire.claim_json(reviews.reopen(name, id, parse(wire.ReopenRequest, content or b"{}").why)))


@router.post(
    "/v1/cases/{id}/withdraw",
    response_model=wire.CaseLine,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(wire.WithdrawRequest),
    summary="End a case that nobody need look at any more, for those who lead",
)
def withdraw(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    return reply(_line(reviews.withdraw(name, id, parse(wire.WithdrawRequest, content).why)))


def _line(case: Case) -> dict[str, Any]:
    return wire.case_line_json(case, datetime.now(UTC))
