"""What stands in front of every application: a gate where there is one, and the layer that names each request."""

from datetime import UTC, datetime

from starlette.types import ASGIApp

from serve.access import needs
from serve.access.gate import Gate
from serve.access.keeper import Keeper
from serve.access.proxy import TrustedProxy
from serve.config.file import Config
from serve.deployments.every import every
from serve.telemetry.reception import Reception
from serve.telemetry.telemetry import Telemetry
from traffic.database import Database

KEYS_SECONDS = 1.0
"""How often a replica learns which keys and sessions are in force."""


def received(app: ASGIApp, config: Config, telemetry: Telemetry, *, echo: bool = False) -> ASGIApp:
    """The application behind the layer that names each request. Where Serve is in front, it gives callers their id back
    itself."""
    return Reception(app, telemetry, echo=echo, access_log=config.telemetry.access_log)


def keeper_of(config: Config, database: Database) -> Keeper | None:
    """Whoever stands at the door, and learns again and again who may come in; None where everybody may."""
    if config.access is None or config.access.mode == "open":
        return None
    proxy = TrustedProxy(config.access.proxy) if config.access.proxy else None
    keeper = Keeper(database, clock=lambda: datetime.now(UTC), proxy=proxy)
    keeper.ring.look()
    every(KEYS_SECONDS, keeper.ring.look, name="keys")
    return keeper


def guarded(app: ASGIApp, keeper: Keeper | None, needed: needs.Needs, cookie: str | None = None) -> ASGIApp:
    return app if keeper is None else Gate(app, keeper, needed, cookie=cookie)


def cookie_of(config: Config) -> str | None:
    return None if config.access is None else config.access.cookie
