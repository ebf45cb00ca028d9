"""Which decided cases are most like one, by the letters that their inputs share."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from fastapi import APIRouter, Request, Response

from demur.review import access
from demur.review.similar import DecidedCase, decided_lately
from demur.serve.hosts.language.few_shot import CharacterNgrams
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.showing import ShownInput, glance, showing
from demur.serve.web.review.site import ReviewSite, Site
from demur.serve.web.shared.visitor import visitor_of
from demur.traffic.record import Answer

MOST_SIMILAR = 5

LEAST = 0.15
"""The cosine of two inputs from which on they are called alike."""

COMPARED = 600
"""Characters of an input that are compared."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, kw_only=True)
class SimilarCase:
    """A decided case that is like another one."""

    case_id: UUID
    input: ShownInput
    """What a list shows of it."""

    label: Answer | None
    """The answer of the people who decided it; None where that may not be told yet."""

    alike: float
    """The cosine, from 0 to 1."""


@router.get("/cases/{id}/similar")
def show_similar(request: Request, site: Site, id: UUID) -> Response:
    """The list that the page of a case shows when it is asked for."""
    name = visitor_of(request)
    sight = site.reviews.see(name, id)
    return site.page(
        request, "similar.html", item=sight.case, shown=sight.shown, similar=similar_cases(site, name, sight)
    )


def can_be_compared(input: ShownInput) -> bool:
    """Whether there are letters to compare."""
    return input.kind in ("text", "question", "messages", "fields")


def similar_cases(site: ReviewSite, name: str, sight: VisibleCase) -> list[SimilarCase]:
    """Return up to `MOST_SIMILAR` decided cases, the most alike first, without their labels where this person is to
    answer blindly. That they were shown is noted."""
    here = showing(sight.value)
    if not can_be_compared(here):
        return []
    scope, _ = site.reviews.rights(name)
    with site.database.transaction() as connection:
        decided = decided_lately(connection, sight.case, scope)
    found = nearest(_words(sight.value), decided)
    with site.database.transaction() as connection:
        told = ["beginning", "opinions"] if sight.shown else ["beginning"]
        access.note(connection, [one.case_id for one, _ in found], name, through="list", shown=told)
    return [
        SimilarCase(case_id=one.case_id, input=glance(one.input), label=one.label if sight.shown else None, alike=alike)
        for one, alike in found
    ]


def nearest(text: str, decided: list[DecidedCase]) -> list[tuple[DecidedCase, float]]:
    """Return the decided cases whose inputs are most like a text, each with the cosine of their pieces of two to four
    characters, weighted by how rare these are."""
    texts = [_words(one.input) for one in decided]
    if not text.strip() or not any(one.strip() for one in texts):
        return []
    pieces = CharacterNgrams()
    try:
        rows = pieces.fit([text, *texts])
    except ValueError:  # signs alone: there is no piece of a word
        return []
    alike = np.asarray((rows[1:] @ rows[0].T).todense()).ravel()
    order = np.argsort(-alike, kind="stable")[:MOST_SIMILAR]
    return [(decided[at], float(alike[at])) for at in order if alike[at] >= LEAST]


def _words(value: Any) -> str:
    """The text of an input; empty where it is no text."""
    shown = showing(value)
    if not can_be_compared(shown):
        return ""
    parts = [shown.text, *(one.text for one in shown.messages), *(text for _, text in shown.options)]
    parts += [f"{name} {one}" for name, one in shown.fields]
    return "\n".join(part for part in parts if part)[:COMPARED]
