"""The list of cases: what an address asks for, and where each link of the page leads."""

from dataclasses import dataclass
from uuid import UUID

from demur.review import search
from demur.review.item import Case
from demur.review.search import SORTS, SearchTooWide
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.case_query import LONGEST, SHOWN, CaseQuery
from demur.serve.web.review.site import ReviewSite

PER_PAGE = 50

DEEPEST = 200
"""Pages that can be leafed through; beyond them one filters."""


@dataclass(kw_only=True)
class ListQuery(CaseQuery):
    """What the address of the list asks for: all of it stands there, so that it can be kept and passed on."""

    page_number: int = 1

    def __post_init__(self) -> None:
        self.show = "" if self.status else self.show if self.show in SHOWN else "open"
        self.sort = self.sort if self.sort.removeprefix("-") in SORTS else ""
        self.page_number = min(max(1, self.page_number), DEEPEST)
        self.q = self.q.strip()[:LONGEST]

    @property
    def narrowed(self) -> bool:
        """Whether anything is asked beyond the state, the model, the group and whose it is."""
        asked = (self.said, self.predicted, self.by, self.overturned, self.disputed, self.since, self.until)
        return any((*asked, self.confidence_from, self.confidence_to))

    def address(self, root: str, **changes: object) -> str:
        """The address of the list with some of it changed; what is empty is left out, and pages begin anew."""
        changed: dict[str, object] = {"page_number": "", **({"status": None} if "show" in changes else {}), **changes}
        if changed.get("show", self.show) == "open":
            changed["show"] = ""
        written = self.written(**changed)
        return f"{root}/{'?' if written else ''}{written}"

    def sorted_by(self, root: str, column: str) -> str:
        """The address where a column is sorted by, the other way round where it is already."""
        return self.address(root, sort=f"-{column}" if self.sort == column else column)


@dataclass(frozen=True, kw_only=True)
class ListedCases:
    """One page of the list."""

    cases: list[Case]
    more: bool
    trouble: str = ""
    """Why nothing was looked for, in words."""


def cases_for(site: ReviewSite, name: str, query: ListQuery) -> ListedCases:
    """Return the page of cases that this person asks for: in the order in which they are worked, unless they search or
    sort."""
    try:
        offset = (query.page_number - 1) * PER_PAGE
        found = site.reviews.find(name, query.search(name), limit=PER_PAGE + 1, offset=offset)
    except (InvalidRequest, SearchTooWide) as error:
        return ListedCases(cases=[], more=False, trouble=str(error))
    return ListedCases(cases=found[:PER_PAGE], more=len(found) > PER_PAGE and query.page_number < DEEPEST)


def only_one(listed: ListedCases, query: ListQuery) -> UUID | None:
    """The case whose id, or whose prediction's, was looked for."""
    wanted = search.id_of(query.q)
    return next((case.id for case in listed.cases if wanted in (case.id, case.record_id)), None) if wanted else None
