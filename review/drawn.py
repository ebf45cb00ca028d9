"""Which records were drawn for a label, and which never could be (METHODS 9.1)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from uuid import UUID

from demur.traffic.database import Connection


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnShare:
    """The records of one action, as far as a label was meant for them."""

    action: str
    n: int
    never: int
    """Those that no label was ever meant for: the probability was 0 when they were decided."""

    last_never: datetime | None
    drawn: int
    """Held for a person, or drawn for a spot check; whether or not a label has come."""


DRAWN = "(r.label_probability = 1 or (r.label_probability > 0 and q.record_id is not null))"


def drawn_shares(
    connection: Connection, model: str, *, since: datetime | None, until: datetime | None
) -> list[DrawnShare]:
    """Count the records decided in [since, until), by action."""
    rows = connection.execute(
        "select r.action, count(*), count(*) filter (where r.label_probability = 0),"
        "       max(r.created_at) filter (where r.label_probability = 0),"
        f"      count(*) filter (where {DRAWN})"
        " from records r left join review_items q on q.id = r.id"
        " where r.model = %(model)s"
        "   and r.created_at >= coalesce(%(since)s::timestamptz, '-infinity')"
        "   and r.created_at < coalesce(%(until)s::timestamptz, 'infinity')"
        " group by r.action order by r.action",
        {"model": model, "since": since, "until": until},
    ).fetchall()
    return [DrawnShare(action=row[0], n=row[1], never=row[2], last_never=row[3], drawn=row[4]) for row in rows]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnRecord:
    """A record that was drawn for a label, whether or not one has come."""

    id: UUID
    action: str
    confidence: float | None
    """None where it is undefined."""


def drawn_records(
    connection: Connection, model: str, *, since: datetime | None, until: datetime | None
) -> list[DrawnRecord]:
    """Return the records decided in [since, until) that were drawn."""
    rows = connection.execute(
        "select r.id, r.action, r.confidence from records r left join review_items q on q.id = r.id"
        f" where r.model = %(model)s and {DRAWN}"
        "   and r.created_at >= coalesce(%(since)s::timestamptz, '-infinity')"
        "   and r.created_at < coalesce(%(until)s::timestamptz, 'infinity')",
        {"model": model, "since": since, "until": until},
    ).fetchall()
    return [
        DrawnRecord(id=row[0], action=row[1], confidence=None if row[2] is None or isnan(row[2]) else row[2])
        for row in rows
    ]


def reviewed_among(connection: Connection, ids: Sequence[UUID]) -> set[UUID]:
    """Return those of the records that were drawn, and about which the person who was asked has spoken.

    A label that came from outside has a probability that nobody knows, whether its record was drawn or not: of two
    drawn ones that wait, the one about which somebody complains would count and the other would not.
    """
    rows = connection.execute(
        "select r.id from records r left join review_items q on q.id = r.id"
        f" where r.id = any(%s) and {DRAWN}"
        " and exists (select from outcomes where record_id = r.id and source = 'review')",
        (list(ids),),
    )
    return {row[0] for row in rows.fetchall()}
