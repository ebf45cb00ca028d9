"""Finding cases: by id, by what is written in them, by what was said, in any order of a table.

Nobody finds by what they may not see. What the model said counts only where this person may be shown it, and what
others said only once the case has ended. The time of a search is bounded. Every function works inside the transaction
it is given."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
import psycopg

from demur.review.cases import Filter, cases_where, condition
from demur.review.item import EVERYTHING, Case, ReviewerScope
from demur.review.progress import WORDS
from demur.traffic.database import Connection

SHORTEST = 3
"""Characters of a text that is looked for: shorter ones are in nearly every case."""

MOST_MILLISECONDS = 2_000

LARGEST_INPUT = 200_000
"""Bytes of an input that is looked through."""

SEES_PREDICTION = (
    "(not i.blind or i.ended_at is not null"
    " or exists (select from review_opinions o where o.case_id = i.id and o.reviewer = %(reviewer)s))"
)

IN_TEXT = (
    f"exists (select from payloads p where p.record_id = i.record_id and pg_column_size(p.input) < {LARGEST_INPUT}"
    f" and ({WORDS} ilike %(like)s or json_typeof(p.input) <> 'string' and {WORDS} ilike %(like_in_json)s))"
)

IN_COMMENT = (
    "exists (select from review_opinions o where o.case_id = i.id and o.undone_at is null and o.comment ilike %(like)s"
    " and (i.ended_at is not null or o.reviewer = %(reviewer)s))"
)

SAID_BY = (
    "exists (select from review_opinions o where o.case_id = i.id and o.undone_at is null and o.reviewer = %(said_by)s"
    " and (i.ended_at is not null or o.reviewer = %(reviewer)s))"
)

SAID = (
    "exists (select from review_opinions o where o.case_id = i.id and o.undone_at is null"
    " and o.label::jsonb ? %(said)s and (i.ended_at is not null or o.reviewer = %(reviewer)s))"
)

PREDICTED = (
    f"{SEES_PREDICTION} and exists (select from records r where r.id = i.record_id"
    " and r.prediction::jsonb ? %(predicted)s)"
)

OVERTURNED = (
    "i.label is not null and exists (select from records r where r.id = i.record_id and (r.prediction is null"
    " or not (r.prediction::jsonb @> i.label::jsonb and i.label::jsonb @> r.prediction::jsonb)))"
)

DISPUTED = "(i.adjudicating or i.status = 'adjudication' or i.resolution in ('majority', 'adjudicated', 'undecided'))"

SORTS = {
    "age": "created_at",
    "due": "due_at",
    "priority": "priority",
    "model": "model",
    "group": '"group"',
    "state": "status",
    "confidence": f"case when {SEES_PREDICTION} then confidence end",
}
"""What each column is sorted by."""


class SearchTooWide(ValueError):
    """A search takes too long. Look for more characters, or name a model, a group or dates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseSearch:
    """Which cases are looked for. What is None is not asked about."""

    which: Filter = field(default=Filter())
    text: str | None = None
    """In the input or in a comment; or an id of a case or prediction, or the beginning of one."""

    said: str | None = None
    """A label that somebody said."""

    predicted: str | None = None
    """A label that the model said."""

    said_by: str | None = None
    overturned: bool = False
    """Only those that ended otherwise than the model had said."""

    disputed: bool = False
    """Only those on which people did not all say the same, or could not tell."""

    confidence_from: float | None = None
    confidence_to: float | None = None
    """Both ends count."""

    since: datetime | None = None
    until: datetime | None = None
    """When it was predicted: from the one on, before the other."""

    sort: str | None = None
    """A name in `SORTS`, behind a minus for the other direction."""

    @property
    def asks(self) -> bool:
        """Whether anything is asked beyond `which`."""
        others = (self.text, self.said, self.predicted, self.said_by, self.since, self.until, self.sort)
        told = self.confidence_from is not None or self.confidence_to is not None
        return told or self.overturned or self.disputed or any(others)


def like(text: str) -> str:
    """The pattern that finds this text anywhere: signs of a pattern stand for themselves."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def id_of(text: str) -> UUID | None:
    """The id that a text is, if it is one."""
    try:
        return UUID(text.strip()) if len(text.strip()) >= 32 else None
    except ValueError:
        return None


def found(
    connection: Connection,
    search: CaseSearch,
    reviewer: str,
    *,
    scope: ReviewerScope = EVERYTHING,
    limit: int,
    offset: int = 0,
) -> list[Case]:
    """Return cases that fit, in the order asked for, else the newest first. Raises `SearchTooWide`."""
    where, values = _conditions(search, reviewer, scope)
    sort = search.sort if search.sort and search.sort.removeprefix("-") in SORTS else "-age"
    column, falls = SORTS[sort.removeprefix("-")], sort.startswith("-")
    order = f"{column} {'desc' if falls else 'asc'} nulls last, id"
    values |= {"limit": limit, "offset": offset}
    with _bounded(connection):
        return cases_where(connection, f"where {where} order by {order} limit %(limit)s offset %(offset)s", values)


def ids(
    connection: Connection,
    search: CaseSearch,
    reviewer: str,
    *,
    scope: ReviewerScope = EVERYTHING,
    limit: int,
) -> list[UUID]:
    """Return the ids of cases that fit, the oldest first, and no more than `limit`. Raises `SearchTooWide`."""
    where, values = _conditions(search, reviewer, scope)
    with _bounded(connection):
        rows = connection.execute(
            f"select id from review_items i where {where} order by created_at, id limit %(limit)s",
            values | {"limit": limit},
        )
        return [row[0] for row in rows.fetchall()]


def count(
    connection: Connection,
    search: CaseSearch,
    reviewer: str,
    *,
    scope: ReviewerScope = EVERYTHING,
    at_most: int,
) -> int:
    """Return how many cases fit, `at_most` where there are more. Raises `SearchTooWide`."""
    where, values = _conditions(search, reviewer, scope)
    with _bounded(connection):
        row = connection.execute(
            f"select count(*) from (select from review_items i where {where} limit %(limit)s) first",
            values | {"limit": at_most},
        ).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def _bounded(connection: Connection) -> Iterator[None]:
    """Let no query within take longer than `MOST_MILLISECONDS`."""
    try:
        with connection.transaction():
            connection.execute(f"set local statement_timeout = {MOST_MILLISECONDS}")
            yield
            connection.execute("set local statement_timeout = default")
    except psycopg.errors.QueryCanceled:
        raise SearchTooWide(
            f"this search takes longer than {MOST_MILLISECONDS // 1000} s: look for more characters, or name a model, a"
            " group or dates"
        ) from None


def _conditions(search: CaseSearch, reviewer: str, scope: ReviewerScope) -> tuple[str, dict[str, Any]]:
    where, values = condition(search.which, scope)
    wheres = [where]
    values |= {"reviewer": reviewer, "said": search.said, "predicted": search.predicted, "said_by": search.said_by}
    if search.text:
        in_json = orjson.dumps(search.text).decode()[1:-1]
        values |= {
            "like": like(search.text),
            "like_in_json": like(in_json),
            "id": id_of(search.text),
            "begins": f"{like(search.text.lower())[1:]}",
        }
        if values["id"]:
            wheres.append("(i.id = %(id)s or i.record_id = %(id)s)")
        else:
            wheres.append(f"({IN_TEXT} or {IN_COMMENT} or i.id::text like %(begins)s)")
    asked = (
        (search.said, SAID),
        (search.predicted, PREDICTED),
        (search.said_by, SAID_BY),
        (search.overturned, OVERTURNED),
        (search.disputed, DISPUTED),
        (search.since, "created_at >= %(since)s"),
        (search.until, "created_at < %(until)s"),
    )
    wheres += [words for told, words in asked if told]
    values |= {"since": search.since, "until": search.until}
    for name, sign in (("confidence_from", ">="), ("confidence_to", "<=")):
        if (bound := getattr(search, name)) is not None:
            wheres.append(f"{SEES_PREDICTION} and confidence {sign} %({name})s")
            values[name] = bound
    return " and ".join(f"({one})" for one in wheres), values
