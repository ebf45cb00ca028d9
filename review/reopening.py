"""Changing one's own answer after it counts, as long as nobody has built on it.

The first answer stays on record as taken back, with who, when and why, and the case is claimed by whoever reopens it.
Until there is another outcome, the first one stands. Every function works inside the transaction it is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from demur.review import cases, corrections, queue
from demur.review.item import Case, Claim, Kind, Opinion, ReviewerScope, Status
from demur.review.queue import ClaimLost, NotYours
from demur.traffic.database import Connection
from demur.traffic.outcomes import REVIEW

LAST = 20
"""So many of their own answers a person can look at again, and change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnAnswer:
    """One of a person's last answers."""

    case: Case
    opinion: Opinion
    why_not: str | None
    """Why it cannot be changed any more, in a sentence; None where it can."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _BuiltOn:
    """What others have done since an answer was given."""

    others_said: bool
    looked_again: bool
    told_webhook: bool
    exported: bool
    known_otherwise: bool
    input_kept: bool


def last_answers(connection: Connection, reviewer: str, scope: ReviewerScope, *, limit: int = LAST) -> list[OwnAnswer]:
    """Return what this person answered last, the latest first: of cases that they may still see, and without what they
    took back."""
    rows = connection.execute(
        "select case_id, token from review_opinions where reviewer = %s and undone_at is null"
        " order by at desc limit %s",
        (reviewer, limit),
    ).fetchall()
    ids = [row[0] for row in rows]
    found, said = cases.some(connection, ids), cases.opinions_of(connection, ids)
    built_on = _built_on(connection, reviewer, ids)
    return [
        OwnAnswer(
            case=found[case_id],
            opinion=(own := next(one for one in said[case_id] if one.token == token)),
            why_not=_why_not(found[case_id], own, built_on[case_id], reviewer),
        )
        for case_id, token in rows
        if scope.covers(found[case_id])
    ]


def reopen(
    connection: Connection,
    case_id: UUID,
    reviewer: str,
    *,
    why: str | None,
    scope: ReviewerScope,
    lease_seconds: float,
) -> Claim:
    """Take an answer back that counts, or waits for others, and hold its case again. Doing it again changes nothing.
    Raises `ClaimLost` with the reason where it cannot be changed any more, and `NotYours` where there is none."""
    connection.execute("select from review_items where id = %s for update", (case_id,))
    case = cases.case(connection, case_id)
    queue.check_covers(scope, case)
    if case.status is Status.CLAIMED and case.claimed_by == reviewer:
        return queue.heartbeat(connection, case_id, reviewer, token=case.token, lease_seconds=lease_seconds)
    connection.execute(  # no sender takes them now
        "select from webhook_deliveries where case_id = %s and event = 'resolved' for update", (case_id,)
    )
    own = next((one for one in last_answers(connection, reviewer, scope) if one.case.id == case_id), None)
    if own is None:
        raise NotYours(f"this is not among your last {LAST} answers, and only those can be changed")
    if own.why_not is not None:
        raise ClaimLost(own.why_not)
    connection.execute(
        "delete from webhook_deliveries where case_id = %s and event = 'resolved'",
        (case_id,),  # none was tried
    )
    detail = {"why": "they change their answer" + (f": {why}" if why else "")}
    row = connection.execute(
        "update review_items set status = 'claimed', settles_at = null, ended_at = null, label = null,"
        " resolution = null, token = token + 1, opened_at = null, ahead = false, claimed_by = %(reviewer)s,"
        " lease_until = clock_timestamp() + make_interval(secs => %(seconds)s), moved_by = %(reviewer)s,"
        " moved_detail = %(detail)s where id = %(id)s returning token, lease_until, adjudicating",
        {
            "id": case_id,
            "reviewer": reviewer,
            "seconds": lease_seconds,
            "detail": orjson.dumps(detail).decode(),
        },
    ).fetchone()
    assert row is not None
    connection.execute(
        "update review_opinions set undone_at = clock_timestamp() where case_id = %s and token = %s",
        (case_id, own.opinion.token),
    )
    if (draft := corrections.as_draft(connection, case_id, own.opinion.token)) is not None:
        queue.keep_draft(connection, case_id, reviewer, draft)
    return Claim(case_id=case_id, reviewer=reviewer, token=row[0], lease_until=row[1], adjudicating=row[2])


def _built_on(connection: Connection, reviewer: str, case_ids: Sequence[UUID]) -> dict[UUID, _BuiltOn]:
    rows = connection.execute(
        "select i.id,"
        " exists (select from review_opinions o where o.case_id = i.id and o.reviewer <> %(reviewer)s"
        "   and o.undone_at is null),"
        " exists (select from review_items again where again.record_id = i.record_id and again.id <> i.id),"
        " exists (select from webhook_deliveries d where d.case_id = i.id and d.event = 'resolved'"
        "   and (attempts > 0 or body is not null)),"  # where it is sent again, attempts begin anew
        " exists (select from case_views v where v.case_id = i.id and v.through = 'export' and v.at > i.ended_at),"
        " exists (select from outcomes o where o.record_id = i.record_id"
        "   and (o.source <> %(review)s or o.author is distinct from %(reviewer)s)),"
        " exists (select from payloads p where p.record_id = i.record_id)"
        " from review_items i where i.id = any(%(ids)s)",
        {"reviewer": reviewer, "review": REVIEW, "ids": list(case_ids)},
    ).fetchall()
    return {
        row[0]: _BuiltOn(
            others_said=row[1],
            looked_again=row[2],
            told_webhook=row[3],
            exported=row[4],
            known_otherwise=row[5],
            input_kept=row[6],
        )
        for row in rows
    }


def _why_not(case: Case, own: Opinion, built_on: _BuiltOn, reviewer: str) -> str | None:
    """Return why an answer cannot be changed any more; None where it can."""
    if case.status is Status.ANSWERED and case.claimed_by == reviewer:
        return None  # it does not count yet
    if case.status in (Status.EXPIRED, Status.WITHDRAWN):
        return "nobody is asked about this case any more"
    if case.status in (Status.CLAIMED, Status.ANSWERED):
        return "somebody else is at this case"
    if own.adjudicates or case.adjudicating or case.resolution not in (None, "agreed"):
        return "it was decided between several answers, or somebody has begun to decide"
    compared = case.status in (Status.ADJUDICATION, Status.RESOLVED) and built_on.others_said
    if compared or case.kind is Kind.RE_REVIEW or built_on.looked_again:
        return "it was compared with what others say"
    if built_on.told_webhook:
        return "another system was told of it"
    if built_on.exported:
        return "it was exported"
    if built_on.known_otherwise:
        return "somebody has told an outcome of their own"
    if not built_on.input_kept:
        return "the input is no longer kept, so nobody could look at it again"
    return None
