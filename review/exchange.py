"""Cases on their way to other tools, and the verdicts that people gave there on their way back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from demur.review import cases, queue, settling
from demur.review.item import Case, Opinion, ReviewerScope, ReviewVerdict
from demur.review.settling import Settlement
from demur.traffic import log
from demur.traffic.database import Connection
from demur.traffic.record import Record

AT_ONCE = 200
"""Cases read with one round of statements."""

WHILE_WRITING = 60.0
"""Seconds of the lease under which a verdict from elsewhere is written; its transaction ends long before."""


class SaidOtherwise(ValueError):
    """This person has said something else about this case here. What was said here counts."""


class ImportOutcome(StrEnum):
    """What became of a verdict from elsewhere."""

    TAKEN = "taken"  # it counts
    KNOWN = "known"  # the same person has said the same here before, or it was brought before


@dataclass(frozen=True, kw_only=True, slots=True)
class Dossier:
    """All that is known of a case."""

    case: Case
    record: Record
    value: Any
    """The input; None when it is no longer kept."""

    opinions: list[Opinion]


def dossiers(connection: Connection, case_ids: Sequence[UUID]) -> Iterator[Dossier]:
    """Yield all that is known of these cases, in their order; those that do not exist are left out."""
    for begin in range(0, len(case_ids), AT_ONCE):
        some = case_ids[begin : begin + AT_ONCE]
        found = cases.some(connection, some)
        opinions = cases.opinions_of(connection, some)
        record_ids = [case.record_id for case in found.values()]
        records = log.find(connection, record_ids)
        values: dict[UUID, Any] = dict(
            connection.execute(
                "select record_id, input from payloads where record_id = any(%s)", (record_ids,)
            ).fetchall()
        )
        for case_id in some:
            if case_id in found:
                case = found[case_id]
                yield Dossier(
                    case=case,
                    record=records[case.record_id],
                    value=values.get(case.record_id),
                    opinions=opinions[case_id],
                )


def take_in(
    connection: Connection,
    case_id: UUID,
    reviewer: str,
    verdict: ReviewVerdict,
    *,
    seconds: float | None,
    scope: ReviewerScope,
    rules: Settlement,
) -> ImportOutcome:
    """Let a verdict count that somebody gave elsewhere: the case is claimed for them, answered and settled at once.

    `seconds` is what it took them, where that is known. Bringing it again changes nothing. Raises `ClaimLost` for a
    case that somebody holds or that has ended, `NotYours` where this person may not answer it, and `SaidOtherwise`.
    """
    for opinion in cases.opinions_of(connection, [case_id])[case_id]:
        if opinion.reviewer == reviewer and opinion.undone_at is None:
            if (opinion.label, opinion.reason) == (verdict.label, verdict.reason):
                return ImportOutcome.KNOWN
            raise SaidOtherwise(f"{reviewer} has said {opinion.label or opinion.reason!r} about this case before")
    claim = queue.claim(connection, case_id, reviewer, lease_seconds=WHILE_WRITING, scope=scope)
    queue.answer(connection, case_id, reviewer, token=claim.token, verdict=verdict, undo_seconds=0)
    if seconds is not None:
        connection.execute(
            "update review_opinions set seconds = %s where case_id = %s and token = %s",
            (seconds, case_id, claim.token),
        )
    settling.settle(connection, rules, case_id)
    return ImportOutcome.TAKEN


def some_input(connection: Connection, model: str) -> Any:
    """The input of any case of this model; None when none is kept."""
    row = connection.execute(
        "select input from review_items join payloads using (record_id) where model = %s limit 1", (model,)
    ).fetchone()
    return None if row is None else row[0]
