"""Which cases an address asks for: one reader for the list of the pages and for the API, under one set of names."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from math import isfinite
from typing import Annotated
from urllib.parse import parse_qs, urlencode

from fastapi import Query

from demur.library.nearest import one_of
from demur.review.cases import Filter
from demur.review.item import ENDED, Status
from demur.review.search import SHORTEST, SORTS, CaseSearch
from demur.serve.contract.inputs import InvalidRequest

LONGEST = 200
"""Characters of what is looked for."""

SHOWN: dict[str, tuple[Status, ...] | None] = {
    "open": (Status.WAITING, Status.CLAIMED, Status.ANSWERED, Status.ADJUDICATION),
    "waiting": (Status.WAITING,),
    "disputed": (Status.ADJUDICATION,),
    "claimed": (Status.CLAIMED, Status.ANSWERED),
    "done": ENDED,
    "all": None,
}
"""The states that each tab of the list is about."""

DAY = len("2026-11-30")


def _told(description: str) -> object:
    return Query(description=description)


@dataclass(kw_only=True)
class CaseQuery:
    """Cases as an address asks for them. What is empty is not asked about; only cases that fit all of it are meant."""

    show: Annotated[str, _told(f"One of {', '.join(SHOWN)}: the tabs of the list. By default all.")] = ""
    status: Annotated[Sequence[Status] | None, _told("Any of these, in the place of `show`.")] = None
    model: str = ""
    group: str = ""
    mine: Annotated[bool, _told("Only those that you hold, or spoke about last.")] = False
    assigned_to: Annotated[str, _told("Only those that are kept for this person.")] = ""
    overdue: Annotated[bool, _told("Only open ones whose due time has passed.")] = False
    q: Annotated[
        str,
        _told(
            f"A text in the input or in a comment, of {SHORTEST} characters at least; or an id of a case or prediction,"
            " or its beginning."
        ),
    ] = ""
    said: Annotated[str, _told("A label that people said, as far as you may know.")] = ""
    predicted: Annotated[str, _told("A label that the model said, as far as you may know.")] = ""
    by: Annotated[str, _told("Only those about which this person spoke, as far as you may know.")] = ""
    overturned: Annotated[bool, _told("Only those that ended otherwise than the model had said.")] = False
    disputed: Annotated[bool, _told("Only those on which people disagreed, or about which some could not tell.")] = (
        False
    )
    confidence_from: Annotated[str, _told("From 0 to 1; this end counts.")] = ""
    confidence_to: Annotated[str, _told("From 0 to 1; this end counts.")] = ""
    since: Annotated[str, _told("Predicted from then on: a date, or a time.")] = ""
    until: Annotated[str, _told("Predicted before then: a time; or a date, which counts itself.")] = ""
    sort: Annotated[
        str, _told(f"One of {', '.join(SORTS)}; behind a `-` the other way round. By default in the order of work.")
    ] = ""

    def search(self, name: str) -> CaseSearch:
        """Return what is looked for, for the person of this name. Raises `InvalidRequest`."""
        text = self.q.strip()[:LONGEST]
        if text and len(text) < SHORTEST:
            raise InvalidRequest(f"q: {SHORTEST} characters at least are looked for")
        for key, value, known in (("show", self.show, SHOWN), ("sort", self.sort.removeprefix("-"), SORTS)):
            if value and value not in known:
                raise InvalidRequest(f"{key}: {one_of(value, list(known))}")
        if self.show and self.status:
            raise InvalidRequest("show, status: write only one of them")
        return CaseSearch(
            which=Filter(
                statuses=tuple(self.status) if self.status else SHOWN[self.show or "all"],
                model=self.model or None,
                group=self.group or None,
                overdue=self.overdue,
                claimed_by=name if self.mine else None,
                assigned_to=self.assigned_to or None,
            ),
            text=text or None,
            said=self.said or None,
            predicted=self.predicted or None,
            said_by=self.by or None,
            overturned=self.overturned,
            disputed=self.disputed,
            confidence_from=_share("confidence_from", self.confidence_from),
            confidence_to=_share("confidence_to", self.confidence_to),
            since=_time("since", self.since),
            until=_time("until", self.until, through_the_day=True),
            sort=self.sort or None,
        )

    def written(self, **changes: object) -> str:
        """All of it as it stands in an address behind the `?`, with some of it changed; what is empty is left out."""
        told = {one.name: getattr(self, one.name) for one in fields(self)} | changes
        pairs = [(key, one) for key, value in told.items() for one in _each(value) if one]
        return urlencode([(key, "true" if one is True else str(one)) for key, one in pairs])


def read_query(text: str) -> CaseQuery:
    """Return the query that an address has behind its `?`. Raises `InvalidRequest` for what no address asks for."""
    try:
        told = parse_qs(text.removeprefix("?"), strict_parsing=bool(text), max_num_fields=50)
    except ValueError:
        raise InvalidRequest(
            "it is not written as in the address of a list, such as show=waiting&model=digits"
        ) from None
    known = {one.name: one.type for one in fields(CaseQuery)}
    values: dict[str, object] = {}
    for key, (first, *others) in told.items():
        if key not in known:
            raise InvalidRequest(one_of(key, list(known)))
        if "\0" in first:
            raise InvalidRequest(f"{key}: the character 0 cannot be stored; leave it out")
        if key == "status":
            try:
                values[key] = [Status(one) for one in (first, *others)]
            except ValueError:
                raise InvalidRequest(f"status: each is one of {', '.join(Status)}") from None
        elif others:
            raise InvalidRequest(f"{key}: it stands there more than once")
        elif isinstance(getattr(CaseQuery, key), bool):
            if first not in ("true", "false"):
                raise InvalidRequest(f"{key}: write true or false")
            values[key] = first == "true"
        else:
            values[key] = first
    return CaseQuery(**values)  # type: ignore[arg-type]


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else (value,)


def _share(key: str, told: str) -> float | None:
    try:
        share = float(told) if told.strip() else None
    except ValueError:
        share = float("nan")
    if share is not None and not (isfinite(share) and 0 <= share <= 1):
        raise InvalidRequest(f"{key}: write a number from 0 to 1, such as 0.8")
    return share


def _time(key: str, told: str, *, through_the_day: bool = False) -> datetime | None:
    told = told.strip()
    try:
        days = 1 if through_the_day and len(told) <= DAY else 0
        return datetime.fromisoformat(told).astimezone() + timedelta(days=days) if told else None
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{key}: write a date like 2026-11-30, or a time like 2026-11-30T12:00:00Z") from None
