"""Verdicts that people gave in Label Studio, taken in one by one: what counts now, and what was refused and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from demur.review.cases import CaseNotFound
from demur.review.exchange import SaidOtherwise
from demur.review.item import ReviewVerdict
from demur.review.queue import ClaimLost, NotYours
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.label_studio import Annotation, AnnotationRow, annotations_of, case_of
from demur.serve.web.review.service import ReviewService
from demur.traffic.record import Answer


@dataclass(frozen=True, kw_only=True)
class ImportedAnnotation:
    """What became of one annotation of a file."""

    task: int
    """Its place in the file, from 0 on."""

    annotation: int
    """Its place in the task."""

    became: Literal["taken", "known", "refused"]
    """It counts now; it did before; or it could not be taken."""

    why: str | None
    """Why it could not be taken."""

    case: UUID | None
    person: str | None
    label: Answer | None


def import_verdicts(
    reviews: ReviewService,
    tasks: Sequence[Mapping[str, Any]],
    *,
    people: Mapping[str, str],
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> list[ImportedAnnotation]:
    """Take in every annotation of an export, each by itself; return what became of them, in the order of the file.

    What was taken before stays as it is, so the same file can be brought again. What a claim of somebody else kept from
    counting is kept as that person's draft.
    """
    known = [case_id for task in tasks if (case_id := case_of(task))]
    served = reviews.config.models
    exclusive = {
        case_id: served[model].task.exclusive for case_id, model in reviews.models_of(known).items() if model in served
    }
    rows = list(annotations_of(tasks, exclusive, people))
    done = []
    for row in rows:
        done.append(_take_in(reviews, row))
        progress(len(done), len(rows))
    return done


def people_of(pairs: Sequence[str]) -> dict[str, str]:
    """Names by what Label Studio knows people by, from texts like `7=ada`."""
    people = {}
    for pair in pairs:
        there, equals, here = pair.rpartition("=")
        if not (there and equals and here):
            raise InvalidRequest(f"person: {pair!r} is not like 7=ada or ada@example.org=ada")
        people[there] = here
    return people


def counted(rows: Sequence[ImportedAnnotation]) -> dict[str, int]:
    """How many annotations became what."""
    return {became: sum(row.became == became for row in rows) for became in ("taken", "known", "refused")}


def _take_in(reviews: ReviewService, row: AnnotationRow) -> ImportedAnnotation:
    told = row.found
    if not isinstance(told, Annotation):
        return ImportedAnnotation(
            task=row.task,
            annotation=row.annotation,
            became="refused",
            why=str(told),
            case=None,
            person=None,
            label=None,
        )
    verdict = ReviewVerdict(
        label=told.label, reason=told.reason, comment=told.comment, saw_prediction=told.saw_prediction
    )
    why = None
    became: Literal["taken", "known", "refused"] = "refused"
    try:
        became = reviews.take_in(told.person, told.case_id, verdict, seconds=told.seconds).value
    except (CaseNotFound, ClaimLost, InvalidRequest, NotYours, SaidOtherwise) as error:
        why = str(error)
    return ImportedAnnotation(
        task=row.task,
        annotation=row.annotation,
        became=became,
        why=why,
        case=told.case_id,
        person=told.person,
        label=told.label,
    )
