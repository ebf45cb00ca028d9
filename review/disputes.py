"""Cases that wait for somebody who decides: which of them one person may decide, what was said, and one decision.

Every function works inside the transaction it is given."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from demur.review import cases, queue
from demur.review.cases import IN_ORDER, IN_SCOPE, NOT_ANOTHERS, NOT_YET_BY, cases_where, scope_values
from demur.review.item import Case, Claim, Kind, Opinion, QueueOrder, ReviewerScope, ReviewVerdict
from demur.review.queue import ClaimLost, NotYours
from demur.traffic.database import Connection
from demur.traffic.record import Answer

SOMEBODY_TOLD = (
    "exists (select from review_opinions o where (o.case_id = i.id or o.case_id = i.record_id)"
    " and o.undone_at is null and o.label is not null)"
)

OPEN_TO_DECIDE = (
    "(status = 'adjudication' or status = 'claimed' and adjudicating"
    " and (claimed_by = %(reviewer)s or lease_until < clock_timestamp()))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """One answer that people gave, and who gave it."""

    label: Answer
    text: str | None
    """What they wrote in the place of the reply."""

    codes: tuple[str, ...]
    opinions: tuple[Opinion, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToDecide:
    """How many cases wait for a person to decide."""

    differ: int
    """People said different things, or one could tell and another could not."""

    unclear: int
    """Nobody could tell."""


def sides_of(opinions: Sequence[Opinion]) -> list[Side]:
    """Return the answers that were given, each once, in the order in which they came. Whoever could not tell, or took
    it back, gave none. Those who agree on a label and wrote no text stand with whoever wrote one first."""
    found: list[Side] = []
    for one in opinions:
        if one.undone_at is not None or one.label is None:
            continue
        at = next((at for at, side in enumerate(found) if _stands_with(one, side)), None)
        if at is None:
            side = Side(label=one.label, text=one.text, codes=tuple(one.codes or ()), opinions=(one,))
            found.append(side)
        else:
            side = found[at]
            found[at] = replace(
                side,
                text=side.text if side.text is not None else one.text,
                codes=tuple(dict.fromkeys((*side.codes, *(one.codes or ())))),
                opinions=(*side.opinions, one),
            )
    return found


def _stands_with(one: Opinion, side: Side) -> bool:
    same = one.label == side.label
    if isinstance(one.label, list) and isinstance(side.label, list):
        same = set(one.label) == set(side.label)
    return same and (one.text is None or side.text is None or one.text.strip() == side.text.strip())


def said_about(connection: Connection, case: Case) -> list[Opinion]:
    """Return what was said about a case, and before it about the one whose answer it checks: with one side alone
    whoever decides would be led, and would know why people are asked."""
    asked = [case.record_id, case.id] if case.kind is Kind.RE_REVIEW else [case.id]
    said = cases.opinions_of(connection, asked)
    return [one for case_id in asked for one in said[case_id]]


def to_decide(
    connection: Connection,
    reviewer: str,
    *,
    scope: ReviewerScope,
    unclear: bool = False,
    order: QueueOrder = QueueOrder.AGE,
    model: str | None = None,
    limit: int,
) -> list[Case]:
    """Return cases that this person may decide, in the order in which they are worked: those about which people
    differ, or with `unclear` those of which nobody could tell. Raises `NotYours` for whoever does not decide."""
    where, values = _condition(reviewer, scope)
    told = f"not {SOMEBODY_TOLD}" if unclear else SOMEBODY_TOLD
    return cases_where(
        connection,
        f"where {where} and {told} and (%(model)s::text is null or model = %(model)s)"
        f" order by {IN_ORDER[order]} limit %(limit)s",
        {**values, "model": model, "limit": limit},
    )


def counts(connection: Connection, reviewer: str, *, scope: ReviewerScope) -> ToDecide:
    """Count the cases that this person may decide."""
    where, values = _condition(reviewer, scope)
    row = connection.execute(
        f"select count(*) filter (where told), count(*) filter (where not told) from ("
        f"  select {SOMEBODY_TOLD} as told from review_items i where {where}) found",
        values,
    ).fetchone()
    assert row is not None
    return ToDecide(differ=row[0], unclear=row[1])


def decide(
    connection: Connection,
    case_id: UUID,
    reviewer: str,
    verdict: ReviewVerdict,
    *,
    token: int,
    scope: ReviewerScope,
    lease_seconds: float,
    undo_seconds: float,
) -> Claim:
    """Claim a case and decide it, without opening it. `token`: that of the case as this person saw it.

    The time that it took counts from when they saw it, or from their answer before where that came later. Raises
    `ClaimLost` where somebody has had the case since, or there is nothing to decide, and `NotYours`.
    """
    check_decides(scope)
    connection.execute("select from review_items where id = %s for update", (case_id,))
    seen = cases.case(connection, case_id)
    claim = queue.claim(connection, case_id, reviewer, lease_seconds=lease_seconds, scope=scope)
    if not claim.adjudicating:
        raise ClaimLost("there is nothing to decide about this case: it waits for an answer of its own")
    if seen.token != token:
        raise ClaimLost("somebody has had this case since you saw it; look at it again")
    queue.answer(connection, case_id, reviewer, token=claim.token, verdict=verdict, undo_seconds=undo_seconds)
    connection.execute(
        "update review_opinions set seconds = greatest(0, coalesce(extract(epoch from at - greatest("
        "   (select max(v.at) from case_views v where v.case_id = %(id)s and v.person = %(reviewer)s),"
        "   (select max(o.at) from review_opinions o where o.reviewer = %(reviewer)s and o.undone_at is null"
        "     and not (o.case_id = %(id)s and o.token = %(token)s)))), seconds))"
        " where case_id = %(id)s and token = %(token)s",
        {"id": case_id, "reviewer": reviewer, "token": claim.token},
    )
    return claim


def check_decides(scope: ReviewerScope) -> None:
    """Raise `NotYours` for whoever does not decide where others disagree."""
    if not scope.adjudicates:
        raise NotYours("you are not among those who decide; those who do have `adjudicates: true` in review.people")


def _condition(reviewer: str, scope: ReviewerScope) -> tuple[str, dict[str, object]]:
    check_decides(scope)
    return f"{OPEN_TO_DECIDE} and {IN_SCOPE} and {NOT_YET_BY} and {NOT_ANOTHERS}", {
        "reviewer": reviewer,
        **scope_values(scope),
    }
