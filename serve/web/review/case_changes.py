"""Changing many cases in one go, for those who lead: withdrawn, made more or less urgent, kept for a person."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Form, Request, Response
from pydantic import AwareDatetime, BaseModel, Field, model_validator

from demur.library.nearest import one_of
from demur.review import changes, search
from demur.review.changes import MOST_CASES, CaseChange, ChangedCases, MoreFit
from demur.review.item import EVERYTHING, ReviewerScope
from demur.review.people import reviewers_so_far
from demur.review.search import SearchTooWide
from demur.serve.access.names import LONGEST_NAME, as_name
from demur.serve.config.file import Config
from demur.serve.config.review import HIGHEST_PRIORITY, LATEST_DUE
from demur.serve.contract.fields import fields_of
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.wire import Body, Listed, ProblemResponse, parse
from demur.serve.web.review.case_query import CaseQuery, read_query
from demur.serve.web.review.review_wire import Text
from demur.serve.web.review.site import Content, Name, ReviewSite, Site, problems, reply
from demur.serve.web.shared.bodies import takes
from demur.serve.web.shared.storable import FormText
from demur.traffic.database import Connection, Database

LONGEST_WHY = 500
LONGEST_QUERY = 4_000

What = Literal["withdraw", "priority", "due", "no-due", "assign", "unassign"]
"""What the form can do."""

router = APIRouter(tags=["Cases"])
pages = APIRouter(include_in_schema=False)


class CaseValues(Body):
    """New values; what is left out stays as it is."""

    priority: int | None = Field(default=None, ge=0, le=HIGHEST_PRIORITY, description="Higher comes first.")
    due_at: AwareDatetime | None = Field(default=None, description="In the time to come. Null: there is none.")
    assigned_to: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)] | None = Field(
        default=None,
        description="The name of the person whom the cases are kept for: nobody else gets them before their due time is"
        " over. Null: anybody may take them.",
    )

    @model_validator(mode="after")
    def has_a_priority(self) -> "CaseValues":
        if "priority" in self.model_fields_set and self.priority is None:
            raise ValueError("priority: write a number; 0 is that of a case of no rule")
        return self


class CaseChangeRequest(Body):
    """Which cases, and what becomes of them: either `withdraw` or `values`."""

    ids: Annotated[Listed[UUID], Field(min_length=1, max_length=MOST_CASES)] | None = Field(
        default=None, description="These cases."
    )
    matching: Annotated[str, Field(max_length=LONGEST_QUERY)] | None = Field(
        default=None,
        description="In the place of `ids`: all cases that fit this address of a list, such as"
        f" `show=waiting&model=digits`, by the names of `GET /v1/cases`; {MOST_CASES:,} at most.",
    )
    expected: int | None = Field(
        default=None,
        ge=0,
        description="How many fit `matching`, as `count=true` told. Needed with it: where more fit by now, nothing is"
        " changed.",
    )
    withdraw: bool = False
    values: CaseValues | None = None
    why: Annotated[Text, Field(min_length=1, max_length=LONGEST_WHY, description="Kept in the history of each case.")]

    @model_validator(mode="after")
    def says_one_thing(self) -> "CaseChangeRequest":
        if (self.ids is None) == (self.matching is None):
            raise ValueError("write either ids or matching")
        if (self.expected is None) != (self.matching is None):
            raise ValueError("expected: write with matching how many cases fit, and only with it")
        if self.withdraw == (self.values is not None and bool(self.values.model_fields_set)):
            raise ValueError("write either withdraw or values")
        if not self.why.strip():
            raise ValueError("why: say why")
        return self


class LeftCaseView(BaseModel):
    case_id: UUID
    why: str


class ChangedCasesView(BaseModel):
    """What became of each case."""

    changed: list[UUID]
    unchanged: list[UUID] = Field(description="They were so before: the same request twice changes nothing twice.")
    left: list[LeftCaseView] = Field(description="They were left as they are, and why.")


TAKEN = (CaseChangeRequest,)
"""Bodies, which are parsed by hand."""


@router.post(
    "/v1/cases/bulk",
    response_model=ChangedCasesView,
    responses={
        409: {"model": ProblemResponse, "description": "More cases fit by now than `expected`; nothing was changed"},
        **problems(400, 401, 403, 408, 413, 422, 503),
    },
    openapi_extra=takes(CaseChangeRequest),
    summary="Withdraw many cases, or change their priority, due time or whom they are kept for, for those who lead",
)
def change(name: Name, site: Site, content: Content) -> Response:
    """All in one transaction. Cases that were just answered, that somebody else holds, or that have ended are left as
    they are and named; where cases are withdrawn, also those about which somebody has spoken."""
    site.reviews.check_leads(name)
    asked = parse(CaseChangeRequest, content)
    values: dict[changes.Field, Any] = {}
    if asked.values is not None:
        values = {key: getattr(asked.values, key) for key in sorted(asked.values.model_fields_set)}  # type: ignore[misc]
    done = change_cases(
        site.config,
        site.database,
        name,
        values,
        withdraw=asked.withdraw,
        why=asked.why.strip(),
        ids=asked.ids or (),
        matching=asked.matching,
        expected=asked.expected or 0,
    )
    return reply(fields_of(ChangedCasesView, done))


@pages.post("/bulk")
def change_by_form(
    request: Request,
    site: Site,
    what: Annotated[What, Form()],
    id: Annotated[list[UUID] | None, Form()] = None,
    every: Annotated[bool, Form()] = False,
    matching: FormText = "",
    expected: Annotated[int, Form()] = 0,
    priority: Annotated[int, Form(ge=0, le=HIGHEST_PRIORITY)] = 0,
    hours: FormText = "",
    person: FormText = "",
    why: FormText = "",
    back: FormText = "",
) -> Response:
    """The form above the list, and that of one case. What was left is named on the page that comes."""
    name = site.lead_of(request)
    ids = list(dict.fromkeys(id or []))
    if not every and not 0 < len(ids) <= MOST_CASES:
        raise InvalidRequest("tick the cases that you mean, or choose all that fit the list")
    if not why.strip() or len(why.strip()) > LONGEST_WHY:
        raise InvalidRequest(f"say why, in {LONGEST_WHY} characters at most; it stays in the history of each case")
    done = change_cases(
        site.config,
        site.database,
        name,
        _values_of(what, priority, hours, person),
        withdraw=what == "withdraw",
        why=why.strip(),
        ids=() if every else ids,
        matching=matching if every else None,
        expected=expected,
    )
    with site.database.transaction() as connection:
        stranger = what == "assign" and person.strip() not in people_of(site.config, connection)
    return site.page(request, "changed.html", done=done, what=what, person=person.strip(), stranger=stranger, back=back)


def change_cases(
    config: Config,
    database: Database,
    name: str,
    values: dict[changes.Field, Any],
    *,
    withdraw: bool,
    why: str,
    ids: Sequence[UUID] = (),
    matching: str | None = None,
    expected: int = 0,
) -> ChangedCases:
    """Change these cases, or where something is `matching` all that fit it. Whoever asks has been found to lead. Raises
    `InvalidRequest`, `MoreFit` and `SearchTooWide`."""
    now, assignee = datetime.now(UTC), EVERYTHING
    if (due := values.get("due_at")) is not None and not now < due <= now + LATEST_DUE:
        raise InvalidRequest(f"the due time lies in the past or too far ahead; give one within {LATEST_DUE.days} days")
    if (person := values.get("assigned_to")) is not None:
        values["assigned_to"], assignee = _assignee(config, name, person)
    scope = config.review.scope_of(name)
    assert scope is not None, "whoever leads is among the people"
    with database.transaction() as connection:
        if matching is not None:
            wanted = read_query(matching).search(name)
            ids = search.ids(connection, wanted, name, scope=scope, limit=MOST_CASES + 1)
            if len(ids) > MOST_CASES:
                raise InvalidRequest(f"more than {MOST_CASES:,} cases fit: narrow the search, and do it in parts")
            if len(ids) > expected:
                raise MoreFit(f"{len(ids):,} cases fit by now, and {expected:,} did: look at the list again")
        told = CaseChange(withdraw=withdraw, values=values, assignee=assignee)
        return changes.change_cases(connection, ids, name, told, why=why, scope=scope)


def values_for_leads(site: ReviewSite, name: str, query: CaseQuery) -> dict[str, Any]:
    """Return what the form above the list takes: how many cases fit it, and whom they can be kept for."""
    with site.database.transaction() as connection:
        people = people_of(site.config, connection)
    try:
        fit = site.reviews.count(name, query.search(name))
    except SearchTooWide:
        fit = MOST_CASES + 1
    matching = CaseQuery(**{one.name: getattr(query, one.name) for one in fields(CaseQuery)}).written()
    return {"people": people, "fit": fit, "most": MOST_CASES, "matching": matching}


def in_hours(told: str | float) -> datetime:
    """The time so many hours from now. Raises `InvalidRequest`."""
    try:
        wait = timedelta(hours=float(told))
    except (ValueError, OverflowError):
        wait = timedelta(0)
    if not timedelta(0) < wait <= LATEST_DUE:
        most = LATEST_DUE // timedelta(hours=1)
        raise InvalidRequest(f"the due time is a number of hours from now, above 0 and at most {most:,}, such as 4")
    return datetime.now(UTC) + wait


def people_of(config: Config, connection: Connection) -> list[str]:
    """The people whom cases can be kept for: those of the configuration, else those who have answered any."""
    return sorted(config.review.people) or reviewers_so_far(connection)


def _assignee(config: Config, lead: str, told: str) -> tuple[str, ReviewerScope]:
    """The name of a person as it is kept, and what they may see and do."""
    person = as_name(told)
    if person is None:
        raise InvalidRequest(f"the name of the person has 1 to {LONGEST_NAME} characters, all of them printable")
    scope = config.review.scope_of(lead if person == lead else person)
    if scope is None:
        raise InvalidRequest(f"the person {one_of(person, config.review.people)}")
    return person, scope


def _values_of(what: What, priority: int, hours: str, person: str) -> dict[changes.Field, Any]:
    if what == "priority":
        return {"priority": priority}
    if what == "due":
        return {"due_at": in_hours(hours)}
    if what == "assign":
        return {"assigned_to": person}
    return {"no-due": {"due_at": None}, "unassign": {"assigned_to": None}, "withdraw": {}}[what]  # type: ignore[return-value]
