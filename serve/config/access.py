"""Who gets in: `access` in the configuration. Keys and sessions themselves are in the database."""

import os
from enum import StrEnum
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from demur.serve.config.settings import Section

FEWEST_CHARACTERS = 32


class Scope(StrEnum):
    PREDICT = "predict"  # ask for predictions, see what became of them, tell outcomes
    REVIEW = "review"  # see cases and answer them
    AUDIT = "audit"  # see reports, monitors and metrics; ask for an audit
    ADMIN = "admin"  # all of this, and alone: undo alarms, take in verdicts of others, erase


class Unguarded(ValueError):
    """Others could reach a service that asks nobody who they are. Configure `access`, or bind to this machine."""


class NoAccessSecret(ValueError):
    """A secret that logins need is not in the environment. The message names the variable."""


def _from_environment(variable: str, what: str) -> str:
    if not (text := os.environ.get(variable, "").strip()):
        raise NoAccessSecret(f"access: the environment variable {variable} is not set; set it to {what}")
    return text


class OidcConfig(Section):
    """A provider of OpenID Connect at which people log in."""

    issuer: str
    """As the provider writes itself in its tokens, such as `https://login.example.org/realms/lab`."""

    client_id: str
    client_secret_env: str | None = None
    """Name of the environment variable with the client's secret; none for a public client."""

    title: str = "single sign-on"
    """What the login page calls it."""

    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    """The claim with the name that stands beside what people do. They must not be able to change it themselves."""

    roles_claim: str = "groups"
    roles: dict[str, tuple[Scope, ...]] = Field(default={})
    """What each role may do here."""

    everyone: tuple[Scope, ...] = ()
    """What everybody may do whom the provider lets in."""

    @field_validator("issuer")
    @classmethod
    def can_be_trusted(cls, issuer: str) -> str:
        if not _is_safe(issuer):
            raise ValueError(f"{issuer!r} is not an address like https://login.example.org")
        return issuer

    @field_validator("scopes")
    @classmethod
    def ask_who_it_is(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("`openid` is missing: without it no provider says who somebody is")
        return scopes

    def trusts(self, address: object) -> bool:
        """Whether an address that the provider names is reached safely: over https, or like itself on this machine."""
        return isinstance(address, str) and _is_safe(address)

    def secret(self) -> str | None:
        if self.client_secret_env is None:
            return None
        return _from_environment(self.client_secret_env, "the secret that the provider gave to this client")


class ProxyConfig(Section):
    """A proxy in front that knows who people are, and says so in headers."""

    secret_env: str
    """Name of the environment variable with the secret that the proxy sends as `X-Demur-Proxy-Secret`."""

    name_header: str = "X-Forwarded-User"
    roles_header: str = "X-Forwarded-Groups"
    """Roles, with commas between them."""

    address_header: str = "X-Forwarded-For"
    """Addresses, with commas between them; the last one is that from which the proxy was asked."""

    roles: dict[str, tuple[Scope, ...]] = Field(default={})
    everyone: tuple[Scope, ...] = ()

    def secret(self) -> str:
        text = _from_environment(self.secret_env, "the secret that the proxy sends as X-Demur-Proxy-Secret")
        if len(text) < FEWEST_CHARACTERS or not text.isascii():
            raise NoAccessSecret(
                f"access: what is in the environment variable {self.secret_env} can be guessed: take at least"
                f" {FEWEST_CHARACTERS} characters of ASCII (`openssl rand -hex 32` makes some)"
            )
        return text


class AccessConfig(Section):
    """Who gets in."""

    mode: Literal["keys", "open"] = "keys"
    """`keys`: whoever asks shows a key, or has logged in. `open`: everybody may do everything, and may say any name."""

    url: str | None = None
    """Where people reach the service, such as `https://demur.example.org`. Login links lead there, and where it is
    https, cookies travel over nothing else."""

    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    """How long somebody stays logged in at most."""

    idle_minutes: float = Field(default=60, gt=0)
    """How long somebody stays logged in who does nothing."""

    oidc: OidcConfig | None = None
    proxy: ProxyConfig | None = None

    @model_validator(mode="after")
    def logins_can_come_back(self) -> "AccessConfig":
        if self.oidc is not None and self.url is None:
            raise ValueError("oidc: the provider sends people back to `url`; say where people reach this service")
        if self.mode == "open" and (self.oidc or self.proxy):
            raise ValueError("mode: `open` asks nobody who they are; take out `oidc` and `proxy`, or write `keys`")
        return self

    @field_validator("url")
    @classmethod
    def is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment or parts.username:
            raise ValueError(f"{url!r} is not an address like https://demur.example.org")
        return url.rstrip("/")

    @property
    def secure(self) -> bool:
        """Whether people come over https alone."""
        return self.url is not None and self.url.startswith("https:")

    @property
    def cookie(self) -> str:
        """The name of the cookie with a session. Browsers keep the prefix to the host itself and to https: no neighbour
        under the same domain can set it."""
        return "__Host-demur-session" if self.secure else "demur-session"


def check_access_secrets(access: AccessConfig | None) -> None:
    """Raise `NoAccessSecret` where a secret is not in the environment."""
    if access is not None:
        for part in (access.oidc, access.proxy):
            if part is not None:
                part.secret()


def _is_safe(address: str) -> bool:
    parts = urlsplit(address)
    local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    return bool(parts.hostname) and (parts.scheme == "https" or local)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens here."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:  # a name, which may mean any address
        return False


def check_guarded(access: AccessConfig | None, host: str, *, on_cluster: bool = False) -> None:
    """Raise `Unguarded` where others can reach the service and nothing is said about who gets in. On a cluster, where
    Serve listens for all machines, others always can."""
    if access is not None or (is_loopback(host) and not on_cluster):
        return
    where = "on a cluster, which other machines reach" if on_cluster else f"at http.host {host}, which others reach"
    raise Unguarded(
        f"access: nothing says who gets in, {where}; write `access: {{mode: keys}}` and make keys with `demur keys"
        " make`, or `access: {mode: open}` if whoever reaches it may predict, review and audit"
    )


def reach_in_words(access: AccessConfig | None, host: str) -> str:
    """Who gets in, as one sentence."""
    where = "this machine alone reaches it" if is_loopback(host) else f"others reach it at {host}"
    if access is not None and access.mode == "keys":
        return f"{where}, and whoever asks shows a key or has logged in"
    return f"{where}, and nobody is asked who they are"
