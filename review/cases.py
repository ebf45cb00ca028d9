"""Reading the queue: cases in the order in which they are worked, how many there are, what was said and done."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from demur.review.item import ENDED, EVERYTHING, Case, Event, Kind, Opinion, QueueOrder, ReviewerScope, Status
from demur.traffic.database import Connection

LAPSED = "(status = 'claimed' and lease_until < clock_timestamp())"

CASE = (
    'select id, record_id, kind, model, "group", confidence, created_at, priority, due_at, overdue_at,'
    " opinions_wanted, blind, adjudicating, token, settles_at, ended_at, label, resolution, ahead, assigned_to,"
    f" case when {LAPSED} then case when adjudicating then 'adjudication' else 'waiting' end else status end as status,"
    f" case when {LAPSED} then null else claimed_by end as claimed_by,"
    f" case when {LAPSED} then null else lease_until end as lease_until from review_items i"
)

IN_ORDER = {
    QueueOrder.AGE: "priority desc, due_at, created_at, id",
    QueueOrder.UNCERTAINTY: "(-priority), due_at, confidence nulls first, id",
}
"""Written as the indexes are."""

IN_SCOPE = (
    "(%(models)s::text[] is null or model = any(%(models)s::text[]))"
    ' and (%(groups)s::text[] is null or "group" = any(%(groups)s::text[]))'
)

NOT_YET_BY = (
    "not exists (select from review_opinions o where o.reviewer = %(reviewer)s"
    " and (o.case_id = i.id and o.undone_at is null or o.case_id = i.record_id and i.kind = 're_review'))"
)
"""Nobody counts twice: not on one case, and not on the case whose answer is being checked. Who took back an answer to
that has seen what the model said."""


NOT_ANOTHERS = "(i.assigned_to is null or i.assigned_to = %(reviewer)s or i.due_at < clock_timestamp())"
"""Whether a case is not kept for somebody else: what is kept is everybody's once its due time is over."""


class CaseNotFound(LookupError):
    """There is no such case: nobody was ever to look at this prediction."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Backlog:
    """How many cases are in each state."""

    waiting: int
    claimed: int
    answered: int
    adjudication: int
    overdue: int
    """Of the four above, those whose due time has passed."""

    oldest: datetime | None
    """Since when the oldest of those that wait has been waiting."""

    @property
    def open(self) -> int:
        return self.waiting + self.claimed + self.answered + self.adjudication

    @property
    def free(self) -> int:
        """Those that wait for somebody to take them: what is left to do, wherever that is told."""
        return self.waiting + self.adjudication


@dataclass(frozen=True, kw_only=True, slots=True)
class Filter:
    """Which cases are meant. None: whatever it is."""

    statuses: tuple[Status, ...] | None = None
    model: str | None = None
    group: str | None = None
    overdue: bool = False
    """Only those whose due time has passed."""

    claimed_by: str | None = None
    """Only those that this person holds, or spoke about last."""

    assigned_to: str | None = None
    """Only those that are kept for this person."""


def find(connection: Connection, case_id: UUID) -> Case | None:
    return next(iter(cases_where(connection, "where id = %(id)s", {"id": case_id})), None)


def case(connection: Connection, case_id: UUID) -> Case:
    found = find(connection, case_id)
    if found is None:
        raise CaseNotFound(f"there is no case with the id {case_id}")
    return found


def backlog(connection: Connection, scope: ReviewerScope = EVERYTHING) -> Backlog:
    """Count the cases that have not ended and lie in the scope."""
    counts = {
        status: (n, overdue, oldest)
        for status, n, overdue, oldest in connection.execute(
            "select status, count(*), count(*) filter (where due_at < clock_timestamp()), min(created_at)"
            f" from review_items where ended_at is null and {IN_SCOPE} group by status",
            scope_values(scope),
        ).fetchall()
    }
    n = {status.value: counts.get(status.value, (0, 0, None))[0] for status in Status}
    return Backlog(
        waiting=n["waiting"],
        claimed=n["claimed"],
        answered=n["answered"],
        adjudication=n["adjudication"],
        overdue=sum(overdue for _, overdue, _ in counts.values()),
        oldest=counts.get("waiting", (0, 0, None))[2],
    )


def kept_for(connection: Connection, person: str, scope: ReviewerScope = EVERYTHING) -> int:
    """Count the open cases in the scope that are kept for a person."""
    row = connection.execute(
        f"select count(*) from review_items where assigned_to = %(person)s and ended_at is null and {IN_SCOPE}",
        {"person": person, **scope_values(scope)},
    ).fetchone()
    assert row is not None
    return int(row[0])


def listed(
    connection: Connection,
    which: Filter,
    *,
    scope: ReviewerScope = EVERYTHING,
    order: QueueOrder = QueueOrder.AGE,
    limit: int,
    offset: int = 0,
) -> list[Case]:
    """Cases in the order in which they are worked; those that have ended follow, or stand alone, newest first."""
    where, values = condition(which, scope)
    values |= {"limit": limit, "offset": offset}
    if which.statuses and not set(which.statuses) & set(ENDED):
        order_by, where = IN_ORDER[order], f"{where} and ended_at is null"  # as the indexes have it
    elif which.statuses and set(which.statuses) <= set(ENDED):
        order_by, where = "ended_at desc, id", f"{where} and ended_at is not null"
    else:
        order_by = f"ended_at desc nulls first, {IN_ORDER[order]}"
    return cases_where(connection, f"where {where} order by {order_by} limit %(limit)s offset %(offset)s", values)


def ids(connection: Connection, which: Filter, *, scope: ReviewerScope = EVERYTHING) -> list[UUID]:
    """Return the ids of all these cases, oldest first."""
    where, values = condition(which, scope)
    rows = connection.execute(f"select id from review_items i where {where} order by created_at, id", values)
    return [row[0] for row in rows.fetchall()]


def some(connection: Connection, case_ids: Sequence[UUID]) -> dict[UUID, Case]:
    """These cases, as far as they exist."""
    return {one.id: one for one in cases_where(connection, "where id = any(%(ids)s)", {"ids": list(case_ids)})}


def opinions_of(connection: Connection, case_ids: Sequence[UUID]) -> dict[UUID, list[Opinion]]:
    """Every opinion on these cases, oldest first, those that were taken back as well."""
    found: dict[UUID, list[Opinion]] = {case_id: [] for case_id in case_ids}
    with connection.cursor(row_factory=class_row(Opinion)) as cursor:
        cursor.execute(
            "select case_id, token, at, reviewer, adjudicates, label, reason, comment, saw_prediction, seconds,"
            " undone_at, text, codes from review_opinions left join review_corrections using (case_id, token)"
            " where case_id = any(%s) order by case_id, token",
            (list(case_ids),),
        )
        for opinion in cursor:
            found[opinion.case_id].append(opinion)
    return found


def events_of(connection: Connection, case_id: UUID) -> list[Event]:
    """Every move of a case, in turn."""
    with connection.cursor(row_factory=kwargs_row(_event)) as cursor:
        cursor.execute(
            "select at, actor, from_status, to_status, token, detail from review_events where case_id = %s order by id",
            (case_id,),
        )
        return cursor.fetchall()


def draft_of(connection: Connection, case_id: UUID, reviewer: str) -> dict[str, Any] | None:
    """What somebody typed about a case and did not send, or sent too late."""
    row = connection.execute(
        "select content from review_drafts where case_id = %s and reviewer = %s", (case_id, reviewer)
    ).fetchone()
    return None if row is None else row[0]


def condition(which: Filter, scope: ReviewerScope) -> tuple[str, dict[str, Any]]:
    """The condition under which a case is meant, and its values."""
    wheres, values = [IN_SCOPE], scope_values(scope)
    if which.statuses is not None:
        wheres.append("status = any(%(statuses)s)")
        values["statuses"] = [status.value for status in which.statuses]
    for column in ("model", "group", "claimed_by", "assigned_to"):
        if (value := getattr(which, column)) is not None:
            wheres.append(f'"{column}" = %({column})s')
            values[column] = value
    if which.overdue:
        wheres.append("due_at < clock_timestamp() and ended_at is null")
    return " and ".join(wheres), values


def scope_values(scope: ReviewerScope) -> dict[str, Any]:
    """The parameters of `IN_SCOPE`."""
    return {
        "models": None if scope.models is None else list(scope.models),
        "groups": None if scope.groups is None else list(scope.groups),
    }


def cases_where(connection: Connection, rest: str, values: dict[str, Any]) -> list[Case]:
    """Cases by the rest of a query over `review_items i`."""
    with connection.cursor(row_factory=kwargs_row(_case)) as cursor:
        cursor.execute(f"{CASE} {rest}", values)
        return cursor.fetchall()


def _case(*, status: str, kind: str, **columns: Any) -> Case:
    return Case(status=Status(status), kind=Kind(kind), **columns)


def _event(*, from_status: str | None, to_status: str, **columns: Any) -> Event:
    return Event(from_status=Status(from_status) if from_status else None, to_status=Status(to_status), **columns)
