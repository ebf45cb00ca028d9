"""Where the controls of streams stand, as it outlives the processes that move them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import Any
from uuid import UUID

from psycopg.rows import class_row

from demur.policies.control import ControlledValue
from demur.traffic.database import Connection

Settings = Mapping[str, Any]

LEFT_AFTER = timedelta(seconds=15)
"""A lane of which its holder has said nothing for so long may be taken by another."""

POINTS = 200
"""A history has a point for about each such part of its time."""

MOST_POINTS = 400
"""Of a lane's history: then every second one is taken out of it."""

COLUMNS = "lane, model, settings, course, read_until, artifact, holder, began_at, updated_at"


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlState:
    """One lane."""

    lane: UUID
    model: str
    settings: dict[str, Any]
    course: dict[str, Any]
    read_until: dict[str, Any] | None
    artifact: str | None
    holder: UUID | None
    began_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """Where a lane was."""

    at: datetime
    value: float
    average: float | None
    n: int


def begin(
    connection: Connection,
    lane: UUID,
    *,
    model: str,
    settings: Settings,
    course: Mapping[str, Any],
    holder: UUID | None,
    now: datetime,
) -> ControlState:
    """Add a lane."""
    with connection.cursor(row_factory=class_row(ControlState)) as cursor:
        cursor.execute(
            f"insert into control_states ({COLUMNS}) values (%s, %s, %s, %s, null, null, %s, %s, %s)"
            f" returning {COLUMNS}",
            (lane, model, json.dumps(settings), json.dumps(course), holder, now, now),
        )
        begun = cursor.fetchone()
    assert begun is not None
    return begun


def take_left(
    connection: Connection, model: str, settings: Settings, *, holder: UUID, now: datetime
) -> ControlState | None:
    """Take the latest lane with these settings whose holder is gone; None where there is none."""
    with connection.cursor(row_factory=class_row(ControlState)) as cursor:
        cursor.execute(
            "update control_states set holder = %(holder)s, updated_at = %(now)s where lane = ("
            "  select lane from control_states where model = %(model)s and settings = %(settings)s::jsonb"
            "   and (holder is null or updated_at < %(left)s)"
            "  order by updated_at desc limit 1 for update skip locked"
            f") returning {COLUMNS}",
            {
                "holder": holder,
                "model": model,
                "settings": json.dumps(settings),
                "left": now - LEFT_AFTER,
                "now": now,
            },
        )
        return cursor.fetchone()


def latest(connection: Connection, model: str, settings: Settings) -> ControlState | None:
    """The lane with these settings that was moved last."""
    with connection.cursor(row_factory=class_row(ControlState)) as cursor:
        cursor.execute(
            f"select {COLUMNS} from control_states where model = %s and settings = %s::jsonb"
            " order by updated_at desc limit 1",
            (model, json.dumps(settings)),
        )
        return cursor.fetchone()


def shared(
    connection: Connection,
    lane: UUID,
    *,
    model: str,
    settings: Settings,
    course: Mapping[str, Any],
    now: datetime,
) -> ControlState:
    """The one lane of a value that labels move, locked until the transaction ends; it begins here where there is
    none."""
    connection.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"control {model}",))
    found = latest(connection, model, settings)
    return found or begin(connection, lane, model=model, settings=settings, course=course, holder=None, now=now)


def keep(
    connection: Connection,
    lane: UUID,
    course: Mapping[str, Any],
    *,
    holder: UUID | None,
    artifact: str | None,
    now: datetime,
    read_until: Mapping[str, Any] | None = None,
) -> bool:
    """Write where a lane stands; False where it is another's by now, and nothing was written."""
    done = connection.execute(
        "update control_states set course = %s, read_until = %s, artifact = coalesce(%s, artifact), updated_at = %s"
        " where lane = %s and holder is not distinct from %s",
        (
            json.dumps(course),
            None if read_until is None else json.dumps(read_until),
            artifact,
            now,
            lane,
            holder,
        ),
    )
    return done.rowcount == 1


def let_go(connection: Connection, lane: UUID, holder: UUID) -> None:
    """Say that a lane may be taken at once."""
    connection.execute("update control_states set holder = null where lane = %s and holder = %s", (lane, holder))


def states(connection: Connection, model: str, settings: Settings) -> list[ControlState]:
    """All lanes of a model with these settings, the one that was moved last first."""
    with connection.cursor(row_factory=class_row(ControlState)) as cursor:
        cursor.execute(
            f"select {COLUMNS} from control_states where model = %s and settings = %s::jsonb order by updated_at desc",
            (model, json.dumps(settings)),
        )
        return cursor.fetchall()


def note(connection: Connection, state: ControlState, course: ControlledValue, *, now: datetime) -> None:
    """Add to the history of a lane where it is now, unless that has just been done."""
    row = connection.execute("select max(at) from control_history where lane = %s", (state.lane,)).fetchone()
    last = row[0] if row else None
    if last is None or now - last >= (now - state.began_at) / POINTS:
        add_point(connection, state.lane, Point(at=now, value=course.value, average=course.average, n=course.n))


def add_point(connection: Connection, lane: UUID, point: Point) -> None:
    """Add to the history of a lane, and thin it where it has become long."""
    average = None if point.average is None or isnan(point.average) else point.average
    connection.execute(
        "insert into control_history (lane, at, value, average, n) values (%s, %s, %s, %s, %s) on conflict do nothing",
        (lane, point.at, point.value, average, point.n),
    )
    row = connection.execute("select count(*) from control_history where lane = %s", (lane,)).fetchone()
    if row is not None and row[0] > MOST_POINTS:
        connection.execute(
            "delete from control_history h using ("
            "  select at, row_number() over (order by at) as place from control_history where lane = %(lane)s"
            ") counted where h.lane = %(lane)s and h.at = counted.at and counted.place %% 2 = 0",
            {"lane": lane},
        )


def history(connection: Connection, lane: UUID) -> list[Point]:
    """The history of a lane, oldest first."""
    with connection.cursor(row_factory=class_row(Point)) as cursor:
        cursor.execute("select at, value, average, n from control_history where lane = %s order by at", (lane,))
        return cursor.fetchall()
