"""The desk of those who decide: the cases about which people differ, or could not tell, below each other, with what
each of them said. An answer is taken by one key, in place, and can be taken back."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, FastAPI, Form, Query, Request, Response
from pydantic import BaseModel, Field

from demur.review.disputes import Side, sides_of
from demur.serve.contract.fields import fields_of
from demur.serve.contract.wire import Body, parse
from demur.serve.web.review import review_wire as wire
from demur.serve.web.review.answering import COMMANDS, answering
from demur.serve.web.review.case_page import last_answer
from demur.serve.web.review.replies import ShownReply, shown_reply
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.showing import ShownInput, showing
from demur.serve.web.review.site import Content, Name, Reviews, ReviewSite, Site, Word, problems, reply, to
from demur.serve.web.review.small_picture import small_picture
from demur.serve.web.shared.bodies import takes
from demur.serve.web.shared.storable import FormText
from demur.serve.web.shared.visitor import visitor_of

PER_PAGE = 20

MOST_SIDES = 9
"""Answers that have a key."""

router = APIRouter(include_in_schema=False)
api = APIRouter(tags=["Cases"])


@dataclass(frozen=True, kw_only=True)
class ShownDispute:
    """One case of the desk, ready for a template."""

    sight: VisibleCase
    input: ShownInput
    small: Any
    sides: list[Side]
    unsure: list[Any]
    """What those said who could not tell."""

    told: ShownReply
    writes: bool


class SideView(BaseModel):
    """One answer that people gave."""

    label: wire.Label
    text: str | None = Field(description="What they wrote in the place of the reply; null as well once it is deleted.")
    codes: list[str]
    people: int = Field(description="How many said so.")
    comments: list[str]


class DisputeView(BaseModel):
    """A case that you may decide, with what others said of it."""

    case: wire.CaseLine
    token: int = Field(description="Send it along when you decide: then nobody has had the case in between.")
    input: Any = Field(description="As it was sent; null when it is no longer kept.")
    reply: str | None = Field(description="The text to be judged, where the task is to write one.")
    prediction: wire.ShownPrediction | None = Field(description="Null where you are to decide without having seen it.")
    sides: list[SideView] = Field(description="The answers that were given: the first is side 1.")
    unsure: list[str] = Field(description="Why others could not tell.")


class DisputeList(BaseModel):
    disputes: list[DisputeView]
    differ: int = Field(description="So many cases about which people differ wait for you, these included.")
    unclear: int = Field(description="So many of which nobody could tell.")


class DecideRequest(Body):
    """Which of the answers holds."""

    token: wire.Token
    side: Annotated[int, Field(ge=1, le=1000, description="The number of the answer, from 1 on.")]
    comment: wire.Text | None = None


def add_desk(app: FastAPI) -> None:
    """Add the routes of the desk; those of its API stand in `api`."""
    app.include_router(router)


@router.get("/desk")
def show_desk(
    request: Request, site: Site, unclear: bool = False, model: str = "", after: UUID | None = None
) -> Response:
    name = visitor_of(request)
    seen, more = site.reviews.to_decide(name, unclear=unclear, model=model or None, limit=PER_PAGE, through="page")
    return site.page(
        request,
        "desk.html",
        at_desk=True,
        rows=[_shown(site, sight) for sight in seen],
        more=more,
        counts=site.reviews.n_to_decide(name),
        unclear=unclear,
        model=model,
        last=last_answer(site, name, after),
        keys=answering(None).keys,
        commands=COMMANDS,
        most_sides=MOST_SIDES,
    )


@router.post("/desk/{id}")
def decide_and_show(
    request: Request,
    site: Site,
    id: UUID,
    token: Annotated[int, Form()],
    side: Annotated[int, Form()],
    comment: FormText = "",
    unclear: Annotated[bool, Form()] = False,
    model: FormText = "",
) -> Response:
    """What the script does in place, for a browser without it."""
    site.reviews.decide(visitor_of(request), id, token, side, comment=comment.strip() or None)
    return to(request, "/desk", after=id, unclear="true" if unclear else "", model=model)


def desk_again(request: Request, case_id: UUID, model: str = "") -> Response:
    """Lead back to the desk after a decision was taken back."""
    response = to(request, "/desk", model=model)
    response.headers["location"] += f"#case-{case_id}"
    return response


@router.post("/v1/in-place/{id}/decide")
def decide_in_place(request: Request, name: Name, site: Site, id: UUID, content: Content) -> Response:
    """Decide as the form does; `last`: what stands in the place of the case from now on."""
    told = parse(DecideRequest, content)
    site.reviews.decide(name, id, told.token, told.side, comment=told.comment)
    aside = {
        "last": last_answer(site, name, id),
        "model": "",
        "taken": None,
        "keys": answering(None).keys,
        "desk": True,
    }
    return reply({"last": site.html(request, "last.html", **aside)})


@api.get(
    "/v1/disputes",
    response_model=DisputeList,
    responses=problems(401, 403, 422, 503),
    summary="Cases that wait for you to decide, with what others said, for those who decide",
)
def disputes(
    name: Name,
    reviews: Reviews,
    unclear: Annotated[bool, Query(description="Those of which nobody could tell, and no others.")] = False,
    model: Word | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    seen, _ = reviews.to_decide(name, unclear=unclear, model=model, limit=limit, through="api")
    counts = reviews.n_to_decide(name)
    return reply(
        {"disputes": [_dispute_json(sight) for sight in seen], "differ": counts.differ, "unclear": counts.unclear}
    )


@api.post(
    "/v1/cases/{id}/decide",
    response_model=wire.AnswerView,
    responses=problems(400, 401, 403, 404, 408, 409, 413, 422, 503),
    openapi_extra=takes(DecideRequest),
    summary="Decide a case by taking an answer that somebody gave, without claiming it first",
)
def decide(name: Name, reviews: Reviews, id: UUID, content: Content) -> Response:
    told = parse(DecideRequest, content)
    case = reviews.decide(name, id, told.token, told.side, comment=told.comment)
    shown = wire.prediction_json(reviews.record(case), ended=case.ended_at is not None)
    line = wire.case_line_json(case, datetime.now(UTC))
    return reply({"case": line, "undo_until": case.settles_at, "prediction": shown})


def _shown(site: ReviewSite, sight: VisibleCase) -> ShownDispute:
    served = site.config.models.get(sight.case.model)
    input = showing(sight.value)
    return ShownDispute(
        sight=sight,
        input=input,
        small=small_picture(input.text) if input.kind == "picture" else None,
        sides=sides_of(sight.opinions),
        unsure=[one for one in sight.opinions if one.undone_at is None and one.label is None],
        told=shown_reply(sight, site.config.review.codes_of(sight.case.model)),
        writes=served is not None and served.task.writes,
    )


def _dispute_json(sight: VisibleCase) -> dict[str, Any]:
    return {
        "case": wire.case_line_json(sight.case, datetime.now(UTC)),
        "token": sight.case.token,
        "input": sight.value,
        "reply": sight.record.reply["text"] if sight.record.reply else None,
        "prediction": wire.prediction_json(sight.record, ended=False) if sight.shown else None,
        "sides": [
            fields_of(
                SideView,
                side,
                people=len(side.opinions),
                comments=[one.comment for one in side.opinions if one.comment],
            )
            for side in sides_of(sight.opinions)
        ],
        "unsure": [one.reason for one in sight.opinions if one.undone_at is None and one.label is None],
    }
