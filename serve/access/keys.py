"""Keys as they are kept: made, listed, revoked. Each function works inside the transaction it is given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from demur.serve.access.rates import Rate
from demur.serve.access.tokens import KEY, SecretToken, new_token
from demur.serve.config.access import Scope
from demur.traffic.database import Connection


class KeyNotFound(LookupError):
    """There is no key with this id. `demur keys list` shows those that there are."""


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How often a key may be used, in each gateway; None is as often as it likes."""

    requests: Rate | None = None
    predictions: Rate | None = None
    models: Mapping[str, Rate] = field(default_factory=dict)
    """Predictions of one model."""


@dataclass(frozen=True, kw_only=True)
class Key:
    """What is known of a key. Its secret is not."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    models: tuple[str, ...] | None = None
    rates: Rates = Rates()
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    def state(self, now: datetime) -> str:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "in force"


COLUMNS = "id, name, scopes, models, rates, created_at, created_by, expires_at, revoked_at, revoked_by"


def make_key(
    connection: Connection,
    name: str,
    scopes: Sequence[Scope],
    *,
    by: str,
    models: Sequence[str] | None = None,
    rates: Rates | None = None,
    expires_at: datetime | None = None,
) -> SecretToken:
    """Make a key, and return the only copy of its secret."""
    token = new_token(KEY)
    connection.execute(
        "insert into access_keys (id, secret_hash, name, scopes, models, rates, created_by, expires_at)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s)",
        (
            token.id,
            token.hash,
            name,
            [scope.value for scope in scopes],
            None if models is None else list(models),
            Jsonb(_written(rates or Rates())),
            by,
            expires_at,
        ),
    )
    return token


def listed(connection: Connection) -> list[Key]:
    """Every key that was ever made, the latest first."""
    return [_key(row) for row in connection.execute(f"select {COLUMNS} from access_keys order by created_at desc, id")]


def revoke_key(connection: Connection, key_id: str, *, by: str) -> Key:
    """Revoke a key, and with it the sessions that it began. Doing it again changes nothing. Raises `KeyNotFound`."""
    connection.execute(
        "update access_keys set revoked_at = now(), revoked_by = %s where id = %s and revoked_at is null", (by, key_id)
    )
    connection.execute("update access_sessions set ended_at = now() where key_id = %s and ended_at is null", (key_id,))
    row = connection.execute(f"select {COLUMNS} from access_keys where id = %s", (key_id,)).fetchone()
    if row is None:
        raise KeyNotFound(f"there is no key {key_id!r}; `demur keys list` shows those that there are")
    return _key(row)


def usable_key(connection: Connection, token: SecretToken) -> Key | None:
    """The key that this is, if it is in force."""
    row = connection.execute(
        f"select {COLUMNS}, secret_hash from access_keys"
        " where id = %s and revoked_at is null and (expires_at is null or expires_at > now())",
        (token.id,),
    ).fetchone()
    return _key(row[:-1]) if row is not None and token.fits(row[-1]) else None


def usable(connection: Connection) -> list[tuple[Key, bytes]]:
    """The keys that are in force, each with its hash."""
    rows = connection.execute(
        f"select {COLUMNS}, secret_hash from access_keys"
        " where revoked_at is null and (expires_at is null or expires_at > now())"
    )
    return [(_key(row[:-1]), row[-1]) for row in rows]


def _key(row: tuple[Any, ...]) -> Key:
    id, name, scopes, models, rates, *rest = row
    created_at, created_by, expires_at, revoked_at, revoked_by = rest
    return Key(
        id=id,
        name=name,
        scopes=tuple(Scope(scope) for scope in scopes),
        models=None if models is None else tuple(models),
        rates=_read(rates),
        created_at=created_at,
        created_by=created_by,
        expires_at=expires_at,
        revoked_at=revoked_at,
        revoked_by=revoked_by,
    )


def _written(rates: Rates) -> dict[str, Any]:
    def pair(rate: Rate) -> list[float]:
        return [rate.per_second, rate.burst]

    written: dict[str, Any] = {"models": {model: pair(rate) for model, rate in rates.models.items()}}
    if rates.requests:
        written["requests"] = pair(rates.requests)
    if rates.predictions:
        written["predictions"] = pair(rates.predictions)
    return written


def _read(written: Mapping[str, Any]) -> Rates:
    def rate(pair: Sequence[float] | None) -> Rate | None:
        return None if pair is None else Rate(per_second=pair[0], burst=pair[1])

    return Rates(
        requests=rate(written.get("requests")),
        predictions=rate(written.get("predictions")),
        models={model: Rate(per_second=pair[0], burst=pair[1]) for model, pair in written.get("models", {}).items()},
    )
