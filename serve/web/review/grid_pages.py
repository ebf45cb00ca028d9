"""The grid: up to 24 pictures on a page, each a case of one model that is answered by itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response

from demur.review import grid
from demur.review.cases import CaseNotFound
from demur.review.grid import MOST_TILES
from demur.review.item import Status
from demur.review.queue import ClaimLost, NotYours
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import Body, Word, parse
from demur.serve.web.review.answering import COMMANDS, AnswerForm, answering
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.showing import ShownInput, showing
from demur.serve.web.review.site import Content, Name, ReviewSite, Site, to
from demur.serve.web.review.small_picture import SmallPicture, small_picture
from demur.serve.web.shared.storable import FormText
from demur.serve.web.shared.visitor import visitor_of

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One case on the grid."""

    sight: VisibleCase
    input: ShownInput
    small: SmallPicture | None
    accepts: str
    """The label that the model said, where the review is not blind; else empty."""

    @property
    def answered(self) -> bool:
        return self.sight.case.status is Status.ANSWERED

    @property
    def is_picture(self) -> bool:
        """Whether all that is to be judged is on the tile. Else it is opened."""
        return self.input.kind == "picture"


class KeepRequest(Body):
    model: Word


def has_grid(site: ReviewSite, model: str, inputs: Iterable[Any]) -> bool:
    """Whether a list with cases of this model leads to a grid: there is a picture among these inputs."""
    return grid_form(site, model) is not None and any(showing(one).kind == "picture" for one in inputs)


def grid_form(site: ReviewSite, model: str) -> AnswerForm | None:
    """How cases of a model are answered on a grid: by one of up to ten labels. None where they are not."""
    served = site.config.models.get(model)
    if served is None or served.task.kind not in ("binary", "multiclass") or served.task.sparse:
        return None
    way = answering(served.task, words=site.config.review.words_for(model))
    return way if way.form == "buttons" else None


@router.get("/grid")
def show_grid(request: Request, site: Site, model: str = "") -> Response:
    return _grid(request, site, visitor_of(request), model)


@router.post("/grid")
def fill_grid(request: Request, site: Site, model: FormText = "") -> Response:
    """Claim as many cases as a grid has tiles."""
    name = visitor_of(request)
    _form_of(site, model)
    scope, _ = site.reviews.rights(name)
    review = site.config.review
    with site.database.transaction() as connection:
        grid.claim_together(
            connection, name, model, lease_seconds=review.lease_seconds, scope=scope, order=review.order
        )
    return to(request, "/grid", model=model)


@router.post("/grid/answers")
def answer_grid(
    request: Request, site: Site, model: FormText = "", answer: Annotated[list[FormText] | None, Form()] = None
) -> Response:
    """The answers of a browser without scripts: of each tile its case, the token of the claim, and the label."""
    name, refused = visitor_of(request), dict[UUID, str]()
    told = [_read(one) for one in answer or [] if one]
    if len(told) > MOST_TILES:
        raise InvalidRequest(f"a grid has {MOST_TILES} cases at most")
    for case_id, token, label in told:
        try:
            site.reviews.answer(name, case_id, token, label=label)
        except (ClaimLost, CaseNotFound, NotYours, InvalidRequest) as error:
            refused[case_id] = str(error)
    return _grid(request, site, name, model, refused) if refused else to(request, "/grid", model=model)


@router.post("/grid/undo")
def undo_on_grid(
    request: Request, site: Site, id: Annotated[UUID, Form()], token: Annotated[int, Form()], model: FormText = ""
) -> Response:
    site.reviews.undo(visitor_of(request), id, token)
    return to(request, "/grid", model=model)


@router.post("/grid/release")
def leave_grid(request: Request, site: Site, model: FormText = "") -> Response:
    """Let go of what is not answered."""
    with site.database.transaction() as connection:
        grid.let_go_together(connection, visitor_of(request), model)
    return to(request, "/", model=model)


@router.post("/v1/grid/keep", status_code=204)
def keep_grid(name: Name, site: Site, content: Content) -> Response:
    """Somebody is at the grid: the cases on it stay theirs."""
    model = parse(KeepRequest, content).model
    with site.database.transaction() as connection:
        grid.keep_together(connection, name, model, lease_seconds=site.config.review.lease_seconds)
    return Response(status_code=204)


def _grid(
    request: Request, site: ReviewSite, name: str, model: str, refused: dict[UUID, str] | None = None
) -> Response:
    way = _form_of(site, model)
    scope, _ = site.reviews.rights(name)
    with site.database.transaction() as connection:
        shown = grid.on_grid(connection, name, model, scope)
    tiles = [_tile(site.reviews.see(name, case.id, through="page")) for case in shown]
    return site.page(
        request,
        "grid.html",
        409 if refused else 200,
        model=model,
        way=way,
        words=site.config.review.words_for(model),
        tiles=tiles,
        refused=refused or {},
        most=MOST_TILES,
        accepts=any(tile.accepts for tile in tiles),
        lease_seconds=site.config.review.lease_seconds,
        keys=way.keys,
        commands=COMMANDS,
    )


def _tile(sight: VisibleCase) -> Tile:
    input = showing(sight.value)
    said = sight.record.prediction
    accepts = said if sight.shown and sight.own is None and isinstance(said, str) else ""
    small = small_picture(input.text) if input.kind == "picture" else None
    return Tile(sight=sight, input=input, small=small, accepts=accepts)


def _form_of(site: ReviewSite, model: str) -> AnswerForm:
    way = grid_form(site, model)
    if way is None or showing(site.reviews.some_input(model)).kind != "picture":
        raise InvalidRequest(
            f"model: cases of {model!r} are not answered on a grid; it is for pictures of which one of up to ten labels"
            " is right"
        )
    return way


def _read(told: str) -> tuple[UUID, int, str]:
    try:
        case_id, token, label = told.split(" ", 2)
        return UUID(case_id), int(token), label
    except ValueError:
        raise InvalidRequest("answer: it is not one of those that the page offers") from None
