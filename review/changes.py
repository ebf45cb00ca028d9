"""What somebody who leads changes about many cases in one go: withdrawn, made more or less urgent, kept for a person.

All of it happens in one transaction, or nothing. A case that somebody is at is left as it is, and named. Doing the same
again changes nothing. Every function works inside the transaction it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson

from demur.review import cases, queue
from demur.review.cases import NOT_YET_BY
from demur.review.given_back import SKIPPED
from demur.review.item import ENDED, EVERYTHING, Case, ReviewerScope, Status
from demur.traffic.database import Connection

MOST_CASES = 1_000
"""That are changed at once."""

Field = Literal["priority", "due_at", "assigned_to"]


class MoreFit(RuntimeError):
    """More cases fit a search than somebody was told of. Look at the list again, and then change them."""


@dataclass(frozen=True, kw_only=True)
class CaseChange:
    """What becomes of cases: they are withdrawn, or get other values."""

    withdraw: bool = False
    values: Mapping[Field, Any]
    """The new ones; None for `due_at` and `assigned_to` takes what stood there away."""

    assignee: ReviewerScope = EVERYTHING
    """What the person of `assigned_to` may see and do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftCase:
    """A case that was left as it is."""

    case_id: UUID
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ChangedCases:
    """What became of the cases that were to be changed. Each is in one of the three."""

    changed: list[UUID]
    unchanged: list[UUID]
    """They were so before."""

    left: list[LeftCase]

    @property
    def asked(self) -> int:
        return len(self.changed) + len(self.unchanged) + len(self.left)


def change_cases(
    connection: Connection,
    case_ids: Sequence[UUID],
    lead: str,
    change: CaseChange,
    *,
    why: str,
    scope: ReviewerScope = EVERYTHING,
) -> ChangedCases:
    """Change cases as somebody says who leads, with the reason.

    Left as they are: those outside of the scope, those that have ended or were just answered, and those that somebody
    else holds; of cases to be withdrawn also those about which somebody has spoken; of cases to be assigned also those
    that the person cannot answer.
    """
    ids = list(dict.fromkeys(case_ids))
    queue.lapse(connection)
    connection.execute("select from review_items where id = any(%s) order by id for update", (ids,))
    there = cases.some(connection, ids)
    spoken = _spoken(connection, ids) if change.withdraw else {}
    barred = _barred(connection, ids, change.values.get("assigned_to"))
    changed, unchanged, left = [], [], []
    for one in ids:
        case = there.get(one)
        if case is None or not scope.covers(case):
            left.append(LeftCase(case_id=one, why="there is no such case among those that you review"))
        elif case.status is Status.WITHDRAWN and change.withdraw:
            unchanged.append(one)
        elif reason := _in_the_way(case, lead) or spoken.get(one) or _not_for(case, change, barred):
            left.append(LeftCase(case_id=one, why=reason))
        elif not change.withdraw and all(getattr(case, key) == value for key, value in change.values.items()):
            unchanged.append(one)
        else:
            changed.append(one)
    if change.withdraw:
        queue.withdraw_all(connection, changed, lead, why=why)
    else:
        _set(connection, changed, lead, change.values, why)
    return ChangedCases(changed=changed, unchanged=unchanged, left=left)


def _in_the_way(case: Case, lead: str) -> str:
    if case.status in ENDED:
        return f"it has ended: it is {case.status.value}"
    if case.status is Status.ANSWERED:
        return f"{case.claimed_by} has just answered it"
    if case.status is Status.CLAIMED and case.claimed_by != lead:
        return f"it comes next for {case.claimed_by}" if case.ahead else f"it is with {case.claimed_by}"
    return ""


def _not_for(case: Case, change: CaseChange, barred: dict[UUID, str]) -> str:
    person = change.values.get("assigned_to")
    if person is None:
        return ""
    if not change.assignee.covers(case):
        return f"{person} does not review such cases"
    if case.id in barred:
        return f"{person} {barred[case.id]}"
    if case.status is Status.ADJUDICATION and not change.assignee.adjudicates:
        return f"people disagree about it, and {person} is not among those who decide"
    return ""


def _spoken(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    rows = connection.execute(
        "select distinct on (case_id) case_id, reviewer from review_opinions"
        " where undone_at is null and case_id = any(%s) order by case_id, token",
        (list(ids),),
    ).fetchall()
    return {case_id: f"{reviewer} has answered it; withdraw it on its own page" for case_id, reviewer in rows}


def _barred(connection: Connection, ids: Sequence[UUID], person: str | None) -> dict[UUID, str]:
    """The cases that this person cannot answer or does not want, and why."""
    if person is None:
        return {}
    rows = connection.execute(
        f"select id, {NOT_YET_BY} from review_items i where id = any(%(ids)s) and (not {NOT_YET_BY} or {SKIPPED})",
        {"ids": list(ids), "reviewer": person},
    ).fetchall()
    return {case_id: "has skipped it" if free else "has answered it before" for case_id, free in rows}


def _set(connection: Connection, ids: Sequence[UUID], lead: str, values: Mapping[Field, Any], why: str) -> None:
    """Write the new values, and an event for each case."""
    if not ids:
        return
    columns = [f"{key} = %({key})s" for key in values]
    if "due_at" in values:
        columns.append("overdue_at = null")  # it has not passed yet, and is told when it does
        connection.execute("delete from webhook_deliveries where event = 'overdue' and case_id = any(%s)", (list(ids),))
    connection.execute(
        f"update review_items set {', '.join(columns)} where id = any(%(ids)s)", {"ids": list(ids)} | dict(values)
    )
    connection.execute(
        "insert into review_events (case_id, actor, from_status, to_status, token, detail)"
        " select id, %(actor)s, status, status, token, %(detail)s from review_items where id = any(%(ids)s)",
        {"ids": list(ids), "actor": lead, "detail": orjson.dumps({"why": why, "set": _told(values)}).decode()},
    )


def _told(values: Mapping[Field, Any]) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in values.items()}
