"""What stands in front of every application: the layer that names each request, the guard against pages of other sites,
and a gate where callers show who they are."""

from datetime import UTC, datetime

from starlette.types import ASGIApp

from demur.serve.access import needs
from demur.serve.access.authenticator import Authenticator
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.proxy import TrustedProxy
from demur.serve.config.file import Config
from demur.serve.deployments.every import every
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.telemetry.telemetry import Telemetry
from demur.serve.web.login.access_middleware import AccessMiddleware
from demur.serve.web.login.browser_guard import BrowserGuard
from demur.traffic.database import Database

KEYS_SECONDS = 1.0
"""How often a replica learns which keys and sessions are in force."""


def received(app: ASGIApp, config: Config, telemetry: Telemetry, *, echo: bool = False) -> ASGIApp:
    """The application behind the layer that names each request. Where Serve is in front, it gives callers their id back
    itself."""
    return RequestMiddleware(app, telemetry, echo=echo, access_log=config.telemetry.access_log)


def keeper_of(config: Config, database: Database) -> Authenticator | None:
    """Whoever stands at the door, and learns again and again who may come in; None where everybody may."""
    if config.access is None or config.access.mode == "open":
        return None
    proxy = TrustedProxy(config.access.proxy) if config.access.proxy else None
    keeper = Authenticator(database, clock=lambda: datetime.now(UTC), proxy=proxy)
    keeper.ring.look()
    every(KEYS_SECONDS, keeper.ring.look, name="keys")
    return keeper


def guarded(
    app: ASGIApp, config: Config, keeper: Authenticator | None, needed: needs.Needs, *, has_pages: bool = False
) -> ASGIApp:
    """The application behind its gate, if there is one, and behind the guard against pages of other sites."""
    if keeper is not None:
        assert config.access is not None  # else there is no keeper
        app = AccessMiddleware(app, keeper, needed, cookie=config.access.cookie if has_pages else None)
    return BrowserGuard(app, own_hosts(config), has_pages=has_pages)


def own_hosts(config: Config) -> OwnHosts:
    """Return the names under which the service answers. Where callers show who they are and `http.names` says nothing,
    it answers under any name."""
    access, http = config.access, config.http
    asks = access is not None and access.mode == "keys"
    return OwnHosts([http.host, *http.names], url=access.url if access else None, any_name=asks and not http.names)
