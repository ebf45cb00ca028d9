"""The rows in which monitors are kept: taken by one feeder at a time, written back with what was taken in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson
from psycopg.rows import class_row

from demur.traffic.database import Connection

MonitorKind = Literal["risk", "traffic", "reference", "comparison"]
Role = Literal["in force", "canary"]

KNOWN_AFTER_SECONDS = 5.0
"""So long after an alarm has acted, or was undone, all gateways know of it: a monitor that starts again counts records
from then on."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MonitorState:
    """One monitor of one artifact as it stands in the database."""

    model: str
    artifact: str
    kind: str
    role: str | None
    """Which part the artifact has; None: it decides nothing any more."""

    round: int
    counts_from: datetime
    settings: dict[str, Any]
    state: dict[str, Any]
    cursor: dict[str, Any]
    updated_at: datetime


KEPT = "model, artifact, kind, role, round, counts_from, settings, state, cursor, updated_at"


def taken(connection: Connection, model: str, artifact: str, kind: MonitorKind) -> MonitorState | None:
    """Return the row, held until the transaction ends; None where there is none, or somebody else holds it."""
    with connection.cursor(row_factory=class_row(MonitorState)) as cursor:
        return cursor.execute(
            f"select {KEPT} from monitors where model = %s and artifact = %s and kind = %s for update skip locked",
            (model, artifact, kind),
        ).fetchone()


def held(connection: Connection, model: str, artifact: str, kind: MonitorKind) -> MonitorState | None:
    """Return the row as `taken` does, but wait for it; None where there is none."""
    with connection.cursor(row_factory=class_row(MonitorState)) as cursor:
        return cursor.execute(
            f"select {KEPT} from monitors where model = %s and artifact = %s and kind = %s for update",
            (model, artifact, kind),
        ).fetchone()


def begin(
    connection: Connection,
    model: str,
    artifact: str,
    kind: MonitorKind,
    *,
    role: Role | None,
    counts_from: datetime,
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
) -> None:
    """Put a row there, where there is none."""
    connection.execute(
        "insert into monitors (model, artifact, kind, role, counts_from, settings, state, cursor)"
        " values (%s, %s, %s, %s, %s, %s, %s, '{}') on conflict do nothing",
        (model, artifact, kind, role, counts_from, _json(settings), _json(state)),
    )


def keep(connection: Connection, row: MonitorState, *, state: Mapping[str, Any], cursor: Mapping[str, Any]) -> None:
    """Write back a row that is held."""
    connection.execute(
        "update monitors set state = %s, cursor = %s, updated_at = clock_timestamp()"
        " where model = %s and artifact = %s and kind = %s",
        (_json(state), _json(cursor), row.model, row.artifact, row.kind),
    )


def restart(
    connection: Connection,
    row: MonitorState,
    *,
    settings: Mapping[str, Any],
    state: Mapping[str, Any],
    cursor: Mapping[str, Any],
    after_seconds: float,
) -> None:
    """Begin another round: records count that are decided after so many seconds."""
    connection.execute(
        "update monitors set state = %s, cursor = %s, settings = %s, round = round + 1,"
        " counts_from = clock_timestamp() + make_interval(secs => %s), updated_at = clock_timestamp()"
        " where model = %s and artifact = %s and kind = %s",
        (_json(state), _json(cursor), _json(settings), after_seconds, row.model, row.artifact, row.kind),
    )


def forget(connection: Connection, model: str, artifact: str, kind: MonitorKind) -> None:
    connection.execute("delete from monitors where model = %s and artifact = %s and kind = %s", (model, artifact, kind))


def note_roles(connection: Connection, model: str, roles: Mapping[str, Role]) -> None:
    """Note which artifacts of a model decide now, and as what."""
    names = list(roles)
    connection.execute(
        "update monitors m set role = now.role from (select artifact, max(known.role) as role from"
        "   (select artifact, null as role from monitors where model = %(model)s"
        "    union all select * from unnest(%(names)s::text[], %(roles)s::text[])) known group by artifact) now"
        " where m.model = %(model)s and m.artifact = now.artifact and m.role is distinct from now.role",
        {"model": model, "names": names, "roles": [roles[name] for name in names]},
    )


def all_kept(connection: Connection, *, models: list[str] | None = None) -> list[MonitorState]:
    """The monitors of the artifacts that decide now, by model, artifact and kind; without the references, which are
    long."""
    with connection.cursor(row_factory=class_row(MonitorState)) as cursor:
        cursor.execute(
            f"select {KEPT} from monitors where role is not null and kind <> 'reference'"
            " and (%(models)s::text[] is null or model = any(%(models)s)) order by model, role desc, artifact, kind",
            {"models": models},
        )
        return cursor.fetchall()


def former(connection: Connection, model: str, *, most: int) -> list[str]:
    """Artifacts that decide nothing any more, whose answers may still be under review; the latest first."""
    rows = connection.execute(
        "select artifact from monitors where model = %s and role is null and kind = 'risk'"
        " order by updated_at desc limit %s",
        (model, most),
    ).fetchall()
    return [row[0] for row in rows]


def note_look(connection: Connection, model: str, trouble: str = "") -> None:
    """Note that the monitors of a model have just been looked at, or what kept somebody from it."""
    connection.execute(
        "insert into monitor_looks (model, at, trouble) values (%s, clock_timestamp(), %s) on conflict (model)"
        " do update set trouble = excluded.trouble,"
        "   at = case when excluded.trouble = '' then excluded.at else monitor_looks.at end",
        (model, trouble),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """When the monitors of a model were last looked at, and what has kept somebody from it since."""

    model: str
    at: datetime
    trouble: str


def looks(connection: Connection) -> dict[str, Look]:
    with connection.cursor(row_factory=class_row(Look)) as cursor:
        cursor.execute("select model, at, trouble from monitor_looks order by model")
        return {look.model: look for look in cursor.fetchall()}


def _json(value: Mapping[str, Any]) -> str:
    return orjson.dumps(dict(value)).decode()
