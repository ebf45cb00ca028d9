"""Which systems are told of cases: `review.webhooks` in the configuration. Their secrets are in the environment."""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from demur.review.outbox import Subscription, WebhookEvent
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.settings import Section

SECRET_PREFIX = "whsec_"  # noqa: S105 - how one is spelled, not one
FEWEST_BYTES = 24

MAIL_ADDRESS = re.compile(
    r"[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII
)
"""One that needs no quotes."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

NEEDS: Mapping[str, tuple[str, ...]] = {
    "json": ("url", "secret_env"),
    "slack": ("name", "url_env"),
    "teams": ("name", "url_env"),
    "email": ("name", "email"),
}
"""The keys that each format needs, and no other has."""


class NoSecret(ValueError):
    """A webhook's secret is not in the environment, or is none. The message names the variable and how to make one."""


class MailConfig(Section):
    """The server that sends mail, and between whom."""

    host: Annotated[str, written_as(r"^[A-Za-z0-9.:-]+$", "write the name or the address of a server alone")]
    port: int = Field(default=587, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`tls` speaks it from the first byte on, as port 465 wants it. `none` is for a server on this machine."""

    user: str | None = None
    password_env: str | None = None
    """Name of the environment variable with the password of `user`."""

    sender: str
    to: tuple[str, ...] = Field(min_length=1, max_length=50)

    @field_validator("sender", "to")
    @classmethod
    def are_addresses(cls, told: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for one in (told,) if isinstance(told, str) else told:
            if not MAIL_ADDRESS.fullmatch(one):
                raise ValueError(f"{one!r} is not an address like leads@example.org")
        return told

    @model_validator(mode="after")
    def is_safe(self) -> "MailConfig":
        if (self.user is None) != (self.password_env is None):
            raise ValueError("user and password_env: write both, or none of them")
        if self.security == "none" and self.host not in LOOPBACK:
            raise ValueError("security: `none` is taken for a server on this machine only; write `starttls` or `tls`")
        return self

    def password(self) -> str | None:
        """The password as the environment has it now; None where none is wanted. Raises `NoSecret`."""
        return (
            None if self.password_env is None else _from_environment(self.password_env, "the password of `email.user`")
        )


class WebhookConfig(Section):
    """One receiver that is told of cases: a program, a channel, or people by mail."""

    format: Literal["json", "slack", "teams", "email"] = "json"
    """How it is told: signed JSON for a program, or words for people."""

    url: str | None = None
    """The receiver of `json`. No credentials are in it: deliveries are signed."""

    secret_env: str | None = Field(default=None, min_length=1)
    """Name of the environment variable with the secret that deliveries of `json` are signed with."""

    name: str | None = Field(default=None, min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")
    """What pages and logs call a receiver of another format."""

    url_env: str | None = Field(default=None, min_length=1)
    """Name of the environment variable with the address for `slack` and `teams`, which is a secret itself."""

    email: MailConfig | None = None
    service_url: str | None = None
    """Where people open this service, such as https://demur.example.org: messages link to the case there."""

    events: tuple[WebhookEvent, ...] = Field(default=(WebhookEvent.RESOLVED,), min_length=1)
    models: tuple[str, ...] | None = Field(default=None, min_length=1)
    """By default all."""

    timeout_seconds: float = Field(default=10, gt=0, le=60)
    most_attempts: int = Field(default=12, ge=1, le=100)

    @field_validator("url", "service_url")
    @classmethod
    def is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        if not _is_address(url):
            raise ValueError(f"{url!r} is not an address like https://example.org/demur")
        parts = urlsplit(url)
        if parts.username or parts.password:
            raise ValueError("an address with a password in it is shown to people; deliveries are signed instead")
        return url

    @field_validator("service_url")
    @classmethod
    def can_be_linked(cls, url: str | None) -> str | None:
        if url is not None and (set(url) & set("<>|\"'()[]") or urlsplit(url).query or urlsplit(url).fragment):
            raise ValueError(f"{url!r} is not an address like https://demur.example.org")
        return url and url.rstrip("/")

    @model_validator(mode="after")
    def has_what_its_format_needs(self) -> "WebhookConfig":
        needs = NEEDS[self.format]
        for key in needs:
            if getattr(self, key) is None:
                raise ValueError(f"{key}: a webhook of format `{self.format}` needs {', '.join(needs)}")
        for key in sorted({key for keys in NEEDS.values() for key in keys} - set(needs)):
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: a webhook of format `{self.format}` has none; it needs {', '.join(needs)}")
        return self

    @property
    def key(self) -> str:
        """Names the receiver in the outbox, on pages and in logs, and is no secret."""
        told = self.url if self.format == "json" else self.name
        assert told is not None  # `has_what_its_format_needs`
        return told

    @property
    def subscription(self) -> Subscription:
        return Subscription(webhook=self.key, events=tuple(event.value for event in self.events), models=self.models)

    def secret(self) -> str:
        """The secret as the environment has it now: `whsec_` and at least 24 bytes in base64."""
        assert self.secret_env is not None
        text = os.environ.get(self.secret_env, "").strip()
        if not text:
            raise NoSecret(
                f"review.webhooks: the environment variable {self.secret_env} is not set, and deliveries to {self.url}"
                " are signed with it; set it to the secret that the receiver knows, in base64 (`openssl rand -base64"
                " 32` makes one)"
            )
        content = text.removeprefix(SECRET_PREFIX)
        try:
            content = f"{content}{'=' * (-len(content) % 4)}"
            enough = len(base64.b64decode(content, validate=True)) >= FEWEST_BYTES
        except (binascii.Error, ValueError):
            enough = False
        if not enough:
            raise NoSecret(
                f"review.webhooks: what is in the environment variable {self.secret_env} is no secret: at least"
                f" {FEWEST_BYTES} bytes in base64 are taken (`openssl rand -base64 32` makes one)"
            )
        return text

    def address(self) -> str:
        """Where it is sent to, as the environment has it now. Raises `NoSecret`; the message has no address in it."""
        if self.format == "json":
            assert self.url is not None
            return self.url
        assert self.url_env is not None
        url = _from_environment(self.url_env, f"the address of {self.name}")
        if not _is_address(url):
            raise NoSecret(f"review.webhooks: what is in the environment variable {self.url_env} is no address")
        return url

    def check_secret(self) -> None:
        """Raise `NoSecret` where what it needs is not in the environment."""
        if self.format == "json":
            self.secret()
        elif self.email is not None:
            self.email.password()
        else:
            self.address()

    @property
    def secret_key(self) -> tuple[str, ...]:
        """The key of the configuration that names its secret."""
        return {"json": ("secret_env",), "email": ("email", "password_env")}.get(self.format, ("url_env",))


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return bool(usable) and url.isascii() and not any(letter.isspace() for letter in url)


def _from_environment(variable: str, what: str) -> str:
    text = os.environ.get(variable, "").strip()
    if not text:
        raise NoSecret(f"review.webhooks: the environment variable {variable} is not set; it should hold {what}")
    return text


def check_webhooks(webhooks: Sequence[WebhookConfig], models: Sequence[str]) -> None:
    """Raise `ValueError` where two have one address or name, or one is for a model that is not served."""
    keys = [webhook.key for webhook in webhooks]
    for at, webhook in enumerate(webhooks):
        if keys.index(webhook.key) < at:
            raise ValueError(f"review.webhooks.{at}: {webhook.key} is there twice; write all its events in one place")
        for model in webhook.models or ():
            if model not in models:
                raise ValueError(f"review.webhooks.{at}: there is no model {model!r}; there are: {', '.join(models)}")


def check_secrets(webhooks: Sequence[WebhookConfig]) -> None:
    """Raise `NoSecret` where the secret of one is not in the environment."""
    for webhook in webhooks:
        webhook.check_secret()
