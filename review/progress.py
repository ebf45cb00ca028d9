"""How far a person and the team have come today, and what cases look like in a list."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import nan
from typing import Any
from uuid import UUID

from demur.review.cases import IN_SCOPE, scope_values
from demur.review.item import ReviewerScope
from demur.traffic.database import Connection

FULLY = 20_000
"""Bytes up to which an input that is no text comes whole into a list."""

BEGINNING = 160
"""Characters of any other."""

WORDS = r"(replace(input::text, '\u0000', '\ufffd')::json #>> '{}')"
"""An input as text. PostgreSQL has no text with a zero character in it, and raises at one in JSON."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Since some time, and in the last hour."""

    answered: int
    """By this person; what they took back does not count."""

    median_seconds: float
    """Of these, from the claim to the answer. NaN where there are none."""

    resolved: int
    """By all, of the cases that this person may see."""

    resolved_last_hour: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueBucket:
    """The open cases of one model and group."""

    model: str
    group: str | None
    open: int


def progress(connection: Connection, reviewer: str, since: datetime, scope: ReviewerScope) -> Progress:
    own = connection.execute(
        "select count(*), percentile_cont(0.5) within group (order by seconds) from review_opinions"
        " where reviewer = %s and at >= %s and undone_at is null",
        (reviewer, since),
    ).fetchone()
    team = connection.execute(
        "select count(*) filter (where ended_at >= %(since)s), count(*) filter (where ended_at >= hour)"
        " from review_items, (select clock_timestamp() - interval '1 hour' as hour) clock"
        f" where ended_at >= least(%(since)s, hour) and status = 'resolved' and {IN_SCOPE}",
        {"since": since, **scope_values(scope)},
    ).fetchone()
    assert own is not None
    assert team is not None
    return Progress(
        answered=own[0],
        median_seconds=nan if own[1] is None else own[1],
        resolved=team[0],
        resolved_last_hour=team[1],
    )


def shelves(connection: Connection, scope: ReviewerScope) -> list[QueueBucket]:
    """Where the open cases are, by name."""
    rows = connection.execute(
        f'select model, "group", count(*) from review_items where ended_at is null and {IN_SCOPE}'
        ' group by model, "group" order by model, "group" nulls first',
        scope_values(scope),
    ).fetchall()
    return [QueueBucket(model=model, group=group, open=n) for model, group, n in rows]


def glances(connection: Connection, record_ids: Sequence[UUID]) -> dict[UUID, Any]:
    """Inputs as far as a list needs them: small ones whole, of others the beginning (of a picture, no more
    than `data:image`), and none that is no longer kept."""
    return dict(
        connection.execute(
            "select record_id, case when"
            " pg_column_size(input) <= %(fully)s and octet_length(input::text) <= %(fully)s and"  # packed, and unpacked
            f" (json_typeof(input) <> 'string' or left({WORDS}, 10) = 'data:image') then input else"
            f" to_json(left({WORDS}, case left({WORDS}, 10) when 'data:image' then 10"
            " else %(beginning)s end)) end"
            " from payloads where record_id = any(%(ids)s)",
            {"ids": list(record_ids), "fully": FULLY, "beginning": BEGINNING},
        ).fetchall()
    )
