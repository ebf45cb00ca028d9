"""Going from case to case without leaving the page: an answer, what was said of it, and the case after the next one,
in one request. Only the scripts of the pages ask for this; without them the forms do, page by page."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import Field

from demur.review.access import Through
from demur.review.item import Claim
from demur.review.queue import ClaimLost
from demur.serve.contract.wire import Body, Word, parse
from demur.serve.web.review.case_page import case_values, keys_on, last_answer
from demur.serve.web.review.review_wire import AnswerRequest, Token
from demur.serve.web.review.sent_ahead import claim_ahead, let_go, open_ahead, renew_ahead
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.site import Content, Name, ReviewSite, Site, reply

router = APIRouter(include_in_schema=False)


class HeldCase(Body):
    """A case that the browser holds."""

    case_id: UUID
    token: Token


class AheadRequest(Body):
    model: Word | None = Field(default=None, description="Only cases of this model.")
    have: HeldCase | None = Field(default=None, description="The case that was sent ahead: it is kept for longer.")


class InPlaceAnswer(AnswerRequest):
    model: Word | None = None
    opened: HeldCase | None = Field(
        default=None, description="The case that was sent ahead and is shown by now. Null: none was, so one is wanted."
    )


def add_in_place(app: FastAPI) -> None:
    """Add the routes."""
    app.include_router(router)


@router.post("/v1/in-place/ahead")
def ahead(request: Request, name: Name, site: Site, content: Content) -> Response:
    """Send the case that comes next before it is wanted, or keep the one that was sent for longer."""
    asked = parse(AheadRequest, content)
    if asked.have and (claim := renew_ahead(site, name, asked.have.case_id, asked.have.token)):
        return reply({"ahead": _claim_json(claim)})
    return reply({"ahead": _ahead(request, site, name, asked.model)})


@router.post("/v1/in-place/{id}/leave", status_code=204)
def leave(name: Name, site: Site, id: UUID) -> Response:
    """The browser leaves, and will not show this case, which was sent ahead."""
    let_go(site, name, id)
    return Response(status_code=204)


@router.post("/v1/in-place/{id}/answer")
def answer(request: Request, name: Name, site: Site, id: UUID, content: Content) -> Response:
    """Take an answer, as POST /v1/cases/{id}/answer does. `opened`: what became of the case that is shown by now.
    `next`: the page of the case that comes, where none was sent ahead; null where nothing is free. `ahead`: the one
    after it."""
    told = parse(InPlaceAnswer, content)
    site.reviews.answer(name, id, told.token, **told.said)
    opened: dict[str, Any] | None = None
    next_one: dict[str, Any] | None = None
    shown: VisibleCase | None = None
    if told.opened is not None:
        try:
            claim, shown = open_ahead(site, name, told.opened.case_id, told.opened.token)
            opened = _claim_json(claim)
        except ClaimLost as lost:
            opened = {"case_id": told.opened.case_id, "lost": str(lost)}
    elif held := site.reviews.claim_next(name, model=told.model):
        next_one, shown = _sent(request, site, name, held, told.model, "page")
    after = last_answer(site, name, id)
    aside = {"last": after, "model": told.model or "", "taken": shown and shown.case.id, "keys": keys_on(site, shown)}
    return reply(
        {
            "opened": opened,
            "next": next_one,
            "last": site.html(request, "last.html", **aside) if after else "",
            "ahead": _ahead(request, site, name, told.model) if opened or next_one else None,
        }
    )


def _ahead(request: Request, site: ReviewSite, name: str, model: str | None) -> dict[str, Any] | None:
    claim = claim_ahead(site, name, model=model)
    return None if claim is None else _sent(request, site, name, claim, model, "ahead")[0]


def _sent(
    request: Request, site: ReviewSite, name: str, claim: Claim, model: str | None, through: Through
) -> tuple[dict[str, Any], VisibleCase]:
    """A claim with the page of its case."""
    sight = site.reviews.see(name, claim.case_id, through=through)
    html = site.html(request, "case.html", **case_values(site, sight, name, model=model or ""))
    return {**_claim_json(claim), "html": html}, sight


def _claim_json(claim: Claim) -> dict[str, Any]:
    left = (claim.lease_until - datetime.now(UTC)).total_seconds()
    return {"case_id": claim.case_id, "token": claim.token, "seconds": left}
