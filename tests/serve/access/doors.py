"""What the tests of access share: keys, and the gateway behind its door."""

from datetime import UTC, datetime

from demur.serve.access import keys as kept
from demur.serve.access.authenticator import Authenticator
from demur.serve.config.access import Scope
from demur.traffic.database import Database


def make(database: Database, *scopes: Scope, name: str = "ada", **more) -> str:
    """A key, as its owner is shown it once."""
    with database.transaction() as connection:
        return kept.make_key(connection, name, scopes, by="tests", **more).text


def revoke(database: Database, key: str) -> None:
    with database.transaction() as connection:
        kept.revoke_key(connection, key.split("_")[1], by="tests")


def keeper_of(database: Database, clock=lambda: datetime.now(UTC)) -> Authenticator:
    keeper = Authenticator(database, clock=clock)
    keeper.ring.look()
    return keeper


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
