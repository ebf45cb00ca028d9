"""Alarms: raised by a monitor once, in force until a person undoes them, and everything that happened to them.

Every function works inside the transaction it is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson
from psycopg.rows import class_row

from demur.review import outbox
from demur.traffic.database import Connection


class AlarmKind(StrEnum):
    """What an alarm is about."""

    RISK = "risk"  # more of the answers are wrong than was promised
    CONFIDENCE = "confidence"  # confidences no longer come as they came: more labels are wanted
    HELD = "held"  # the share that is held has changed: more labels are wanted
    AUDIT = "audit"  # a scheduled audit found a promise broken that the one before had not


class OnAlarm(StrEnum):
    """What an alarm about the risk does."""

    NOTIFY = "notify"  # it tells
    TIGHTEN = "tighten"  # and only the surest of what was answered is still answered
    HOLD_ALL = "hold_all"  # and nothing is answered any more


class AlarmNotFound(LookupError):
    """There is no such alarm, or it was undone before. `demur alarms list` shows those that are in force."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    id: int
    model: str
    artifact: str
    kind: str
    round: int
    """Of its monitor, which begins another one after each restart."""

    raised_at: datetime
    words: str
    """What is the matter, in one sentence."""

    evidence: dict[str, Any]
    action: str
    floor: float | None
    """Of `tighten`: the least confidence that is still answered; None: there is none."""

    acted_at: datetime | None
    """None where it did nothing but tell."""

    undone_at: datetime | None
    undone_by: str | None
    undo_why: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AlarmEvent:
    """Something that happened to an alarm: `raised`, `acted`, `undone`."""

    alarm_id: int
    at: datetime
    what: str
    actor: str | None
    """None: the service itself."""

    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Safeguard:
    """What an alarm keeps in force about a model: answers below the floor are held, all of them where there is none."""

    model: str
    alarm_id: int
    floor: float | None


COLUMNS = (
    "id, model, artifact, kind, round, raised_at, words, evidence, action, floor, acted_at, undone_at, undone_by,"
    " undo_why"
)


def raise_alarm(
    connection: Connection,
    *,
    model: str,
    artifact: str,
    kind: AlarmKind,
    round: int,
    words: str,
    evidence: Mapping[str, Any],
    action: OnAlarm = OnAlarm.NOTIFY,
    floor: float | None = None,
) -> Alarm | None:
    """Write down an alarm, and what it does from now on; whoever is subscribed will be told. None where this round of
    this monitor has raised it before."""
    row = connection.execute(
        "insert into alarms (model, artifact, kind, round, words, evidence, action, floor, acted_at)"
        " values (%(model)s, %(artifact)s, %(kind)s, %(round)s, %(words)s, %(evidence)s, %(action)s, %(floor)s,"
        "   case when %(action)s <> 'notify' then clock_timestamp() end)"
        " on conflict do nothing returning id",
        {
            "model": model,
            "artifact": artifact,
            "kind": kind.value,
            "round": round,
            "words": words,
            "evidence": orjson.dumps(dict(evidence)).decode(),
            "action": action.value,
            "floor": floor,
        },
    ).fetchone()
    if row is None:
        return None
    outbox.announce_alarm(connection, row[0], model)
    return find(connection, row[0])


def find(connection: Connection, alarm_id: int) -> Alarm:
    """Return the alarm, or raise `AlarmNotFound`."""
    with connection.cursor(row_factory=class_row(Alarm)) as cursor:
        found = cursor.execute(f"select {COLUMNS} from alarms where id = %s", (alarm_id,)).fetchone()
    if found is None:
        raise AlarmNotFound(f"there is no alarm {alarm_id}")
    return found


def in_force(connection: Connection) -> list[Alarm]:
    """All that nobody has undone, the latest first."""
    with connection.cursor(row_factory=class_row(Alarm)) as cursor:
        cursor.execute(f"select {COLUMNS} from alarms where undone_at is null order by id desc")
        return cursor.fetchall()


def latest(connection: Connection, *, model: str | None = None, limit: int) -> list[Alarm]:
    """The latest first, undone ones as well."""
    with connection.cursor(row_factory=class_row(Alarm)) as cursor:
        cursor.execute(
            f"select {COLUMNS} from alarms where %(model)s::text is null or model = %(model)s"
            " order by id desc limit %(limit)s",
            {"model": model, "limit": limit},
        )
        return cursor.fetchall()


def events(connection: Connection, alarm_ids: Sequence[int]) -> list[AlarmEvent]:
    """What happened to these alarms, oldest first."""
    with connection.cursor(row_factory=class_row(AlarmEvent)) as cursor:
        cursor.execute(
            "select alarm_id, at, what, actor, why from alarm_events where alarm_id = any(%s) order by id",
            (list(alarm_ids),),
        )
        return cursor.fetchall()


def safeguards(connection: Connection) -> list[Safeguard]:
    """What alarms keep in force now."""
    rows = connection.execute(
        "select model, id, floor from alarms where undone_at is null and acted_at is not null order by id"
    ).fetchall()
    return [Safeguard(model=row[0], alarm_id=row[1], floor=row[2]) for row in rows]


def mark_undone(connection: Connection, alarm_id: int, *, by: str, why: str) -> Alarm:
    """Write down that a person undoes the alarm; `demur.audit.monitors.feeding.undo` restarts its monitor as well."""
    changed = connection.execute(
        "update alarms set undone_at = clock_timestamp(), undone_by = %s, undo_why = %s"
        " where id = %s and undone_at is null",
        (by, why, alarm_id),
    ).rowcount
    alarm = find(connection, alarm_id)
    if not changed:
        raise AlarmNotFound(f"alarm {alarm_id} was undone before, by {alarm.undone_by}: {alarm.undo_why}")
    return alarm


def floor_for(confidences: Sequence[float | None], keep: float) -> float | None:
    """The least floor that leaves at most a share `keep` of the answers with these confidences; None where every floor
    leaves more, because too many have the highest one, or where there are none: then nothing may be answered."""
    known = sorted((one for one in confidences if one is not None), reverse=True)
    floor = None
    for place, value in enumerate(known, start=1):
        if place < len(known) and known[place] == value:
            continue
        if place > keep * len(confidences):
            break
        floor = value
    return floor
