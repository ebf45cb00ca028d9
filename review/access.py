"""Who saw which case, when, through what, and how much. Every function works inside the transaction it is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from psycopg.rows import class_row

from demur.traffic.database import Connection

Through = Literal["page", "list", "api", "export", "ahead"]
"""`ahead`: it was sent to the person's browser before they had answered the case before. That they saw it is a view
of its own, through `page`; a browser that held it and never showed it has none."""

LIST_AGAIN_SECONDS = 600
"""A list is loaded again and again: within this time the same beginnings shown to the same person are one view."""


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """One case that one person was shown."""

    id: int
    """Later views have larger ones."""

    case_id: UUID
    person: str
    at: datetime
    through: Through
    shown: list[str]
    """Of: beginning, input, prediction, opinions, everything."""


def note(
    connection: Connection, case_ids: Sequence[UUID], person: str, *, through: Through, shown: Sequence[str]
) -> None:
    """Write down that a person is shown these cases. They are shown once this has committed."""
    if not case_ids:
        return
    connection.execute(
        "insert into case_views (case_id, person, through, shown)"
        " select one, %(person)s, %(through)s, %(shown)s from unnest(%(ids)s::uuid[]) one"
        " where %(through)s <> 'list' or not exists (select from case_views v where v.case_id = one"
        "   and v.person = %(person)s and v.through = 'list'"
        "   and v.at > clock_timestamp() - make_interval(secs => %(again)s))",
        {
            "ids": list(case_ids),
            "person": person,
            "through": through,
            "shown": list(shown),
            "again": LIST_AGAIN_SECONDS,
        },
    )


def views(
    connection: Connection,
    *,
    case_id: UUID | None = None,
    person: str | None = None,
    since: datetime | None = None,
    before: int | None = None,
    limit: int,
) -> list[View]:
    """The latest first, at most so many; `before` that with this id."""
    with connection.cursor(row_factory=class_row(View)) as cursor:
        cursor.execute(
            "select id, case_id, person, at, through, shown from case_views"
            " where (%(case)s::uuid is null or case_id = %(case)s)"
            " and (%(person)s::text is null or person = %(person)s)"
            " and (%(since)s::timestamptz is null or at >= %(since)s)"
            " and (%(before)s::bigint is null or id < %(before)s) order by id desc limit %(limit)s",
            {"case": case_id, "person": person, "since": since, "before": before, "limit": limit},
        )
        return cursor.fetchall()
