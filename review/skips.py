"""Cases that a person does not want again: they never come to that person by themselves. Others get them at once.

Every function works inside the transaction it is given."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from demur.review import cases, queue
from demur.review.cases import IN_SCOPE, scope_values
from demur.review.item import Case, ReviewerScope, Status
from demur.traffic.database import Connection

REVIEWERS_SINCE = "interval '7 days'"
"""Where nobody is named in the configuration: who has answered within this time is a reviewer."""

MOST_SHOWN = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class SkippedByAll:
    """An open case that everybody skipped who could answer it: nobody gets it by themselves."""

    id: UUID
    model: str
    group: str | None
    created_at: datetime
    people: list[str]
    reasons: list[str]
    """Why they skipped it, where they said so."""


def skip(connection: Connection, case_id: UUID, reviewer: str, *, token: int, reason: str | None) -> None:
    """Give a claimed case back, and never get it again by oneself."""
    queue.release(connection, case_id, reviewer, token=token, why=f"skipped{f': {reason}' if reason else ''}")
    connection.execute(
        "insert into review_skips (case_id, reviewer, reason) values (%s, %s, %s)"
        " on conflict (reviewer, case_id) do update set at = clock_timestamp(), reason = excluded.reason",
        (case_id, reviewer, reason),
    )
    connection.execute(  # what was kept for them is for others
        "update review_items set assigned_to = null where id = %s and assigned_to = %s", (case_id, reviewer)
    )


def skipped_by_all(
    connection: Connection, scope: ReviewerScope, people: Mapping[str, ReviewerScope]
) -> list[SkippedByAll]:
    """Return the open cases of this scope that everybody skipped who may answer them and has not yet, the oldest first.
    `people`: what each may see and do; where it is empty, whoever answered in the last 7 days may answer everything."""
    rows = connection.execute(
        "select case_id, array_agg(reviewer order by at), array_remove(array_agg(reason order by at), null),"
        " (select coalesce(array_agg(o.reviewer), '{}') from review_opinions o where o.case_id = i.id"
        "   and o.undone_at is null)"
        " from review_skips join review_items i on i.id = case_id"
        f" where status in ('waiting', 'adjudication') and {IN_SCOPE} group by case_id, i.id order by i.created_at",
        scope_values(scope),
    ).fetchall()
    if not rows:
        return []
    found = cases.some(connection, [row[0] for row in rows])
    known = people or dict.fromkeys(_lately(connection), ReviewerScope())
    return [
        SkippedByAll(
            id=case_id,
            model=found[case_id].model,
            group=found[case_id].group,
            created_at=found[case_id].created_at,
            people=skipped,
            reasons=reasons,
        )
        for case_id, skipped, reasons, said in rows
        if _may_answer(found[case_id], known, said) <= set(skipped)
    ][:MOST_SHOWN]


def _may_answer(case: Case, people: Mapping[str, ReviewerScope], said: Collection[str]) -> set[str]:
    decides = case.status is Status.ADJUDICATION
    return {
        name
        for name, scope in people.items()
        if scope.covers(case) and name not in said and (scope.adjudicates or not decides)
    }


def _lately(connection: Connection) -> list[str]:
    rows = connection.execute(
        f"select distinct reviewer from review_opinions where at > clock_timestamp() - {REVIEWERS_SINCE}"
    ).fetchall()
    return [row[0] for row in rows]
