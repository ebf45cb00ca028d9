"""People who have logged in: one-time codes, and the sessions that begin with one. Each function works inside the
transaction it is given."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from demur.serve.access.tokens import CODE, SESSION, SecretToken, new_token
from demur.serve.config.access import Scope
from demur.traffic.database import Connection

BeganBy = Literal["key", "code", "oidc"]


class LoginRefused(PermissionError):
    """What was given does not let anybody in. Ask for a new link, which `demur keys login` makes."""


@dataclass(frozen=True, kw_only=True)
class LoggedInPerson:
    """Who logs in, and what they may do."""

    name: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Session:
    """Somebody who is logged in."""

    id: str
    person: LoggedInPerson
    began_by: BeganBy
    began_at: datetime
    seen_at: datetime
    expires_at: datetime


IN_FORCE = (
    "s.ended_at is null and s.expires_at > now() and s.seen_at + make_interval(secs => s.idle_seconds) > now()"
    " and (s.key_id is null or exists (select from access_keys k where k.id = s.key_id and k.revoked_at is null"
    " and (k.expires_at is null or k.expires_at > now())))"
)


def make_code(
    connection: Connection, name: str, scopes: Sequence[Scope], *, by: str, expires_at: datetime
) -> SecretToken:
    """Make a code with which somebody logs in once, and return its only copy."""
    token = new_token(CODE)
    connection.execute(
        "insert into access_codes (id, secret_hash, name, scopes, created_by, expires_at)"
        " values (%s, %s, %s, %s, %s, %s)",
        (token.id, token.hash, name, [scope.value for scope in scopes], by, expires_at),
    )
    return token


def use_code(connection: Connection, token: SecretToken) -> LoggedInPerson:
    """Whose code this is; it is used up now. Of two who bring it at the same time one is let in."""
    row = connection.execute(
        "select secret_hash, name, scopes, used_at, expires_at > now() from access_codes where id = %s for update",
        (token.id,),
    ).fetchone()
    if row is None or not token.fits(row[0]):
        raise LoginRefused("this code is not known; ask for a new link")
    _, name, scopes, used_at, in_time = row
    if used_at is not None:
        raise LoginRefused("this link was used before, and is good for one login; ask for a new one")
    if not in_time:
        raise LoginRefused("the time of this link is up; ask for a new one")
    connection.execute("update access_codes set used_at = now() where id = %s", (token.id,))
    return LoggedInPerson(name=name, scopes=tuple(Scope(scope) for scope in scopes))


def begin_session(
    connection: Connection, person: LoggedInPerson, *, by: BeganBy, idle_seconds: float, expires_at: datetime
) -> SecretToken:
    """Begin a session, and return the only copy of its secret: always a new one."""
    token = new_token(SESSION)
    connection.execute(
        "insert into access_sessions (id, secret_hash, name, scopes, key_id, began_by, idle_seconds, expires_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            token.id,
            token.hash,
            person.name,
            [scope.value for scope in person.scopes],
            person.key_id,
            by,
            idle_seconds,
            expires_at,
        ),
    )
    return token


def end_session(connection: Connection, session_id: str) -> None:
    """End a session. Doing it again changes nothing."""
    connection.execute("update access_sessions set ended_at = now() where id = %s and ended_at is null", (session_id,))


def log_out(connection: Connection, name: str) -> tuple[int, int]:
    """End every session of somebody, and the codes that they have not used; return how many there were of each."""
    sessions = connection.execute(
        f"update access_sessions s set ended_at = now() where name = %s and {IN_FORCE}", (name,)
    ).rowcount
    codes = connection.execute(
        "update access_codes set expires_at = now() where name = %s and used_at is null and expires_at > now()", (name,)
    ).rowcount
    return sessions, codes


def is_still_in_force(connection: Connection, session_id: str, *, seen: bool) -> bool:
    """Whether a session goes on; `seen` if its person did something just now."""
    if seen:
        changed = connection.execute(
            f"update access_sessions s set seen_at = now() where id = %s and {IN_FORCE}", (session_id,)
        )
        return changed.rowcount == 1
    found = connection.execute(f"select from access_sessions s where id = %s and {IN_FORCE}", (session_id,))
    return found.rowcount == 1


def open_sessions(connection: Connection) -> list[tuple[Session, bytes]]:
    """The sessions that are in force, the latest first, each with its hash."""
    rows = connection.execute(
        "select id, name, scopes, key_id, began_by, began_at, seen_at, expires_at, secret_hash from access_sessions s"
        f" where {IN_FORCE} order by began_at desc, id"
    )
    return [(_session(row[:-1]), row[-1]) for row in rows]


def _session(row: tuple[Any, ...]) -> Session:
    id, name, scopes, key_id, began_by, began_at, seen_at, expires_at = row
    return Session(
        id=id,
        person=LoggedInPerson(name=name, scopes=tuple(Scope(scope) for scope in scopes), key_id=key_id),
        began_by=began_by,
        began_at=began_at,
        seen_at=seen_at,
        expires_at=expires_at,
    )
