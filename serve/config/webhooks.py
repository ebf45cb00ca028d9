"""Which systems are told of cases: `review.webhooks` in the configuration. Their secrets are in the environment."""

import base64
import binascii
import os
from collections.abc import Sequence
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from demur.review.outbox import Subscription, WebhookEvent
from demur.serve.config.settings import Section

SECRET_PREFIX = "whsec_"  # noqa: S105 - how one is spelled, not one
FEWEST_BYTES = 24


class NoSecret(ValueError):
    """A webhook's secret is not in the environment, or is none. The message names the variable and how to make one."""


class WebhookConfig(Section):
    """One address that is told of cases."""

    url: str
    """Its credentials, if it needs any, are in no address: deliveries are signed."""

    secret_env: str = Field(min_length=1)
    """Name of the environment variable with the secret that deliveries are signed with."""

    events: tuple[WebhookEvent, ...] = Field(default=(WebhookEvent.RESOLVED,), min_length=1)
    models: tuple[str, ...] | None = Field(default=None, min_length=1)
    """By default all."""

    timeout_seconds: float = Field(default=10, gt=0, le=60)
    most_attempts: int = Field(default=12, ge=1, le=100)

    @field_validator("url")
    @classmethod
    def is_an_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:
            usable = False
        if not usable or not url.isascii() or any(letter.isspace() for letter in url):
            raise ValueError(f"{url!r} is not an address like https://example.org/demur")
        if parts.username or parts.password:
            raise ValueError("an address with a password in it is shown to people; deliveries are signed instead")
        return url

    @property
    def subscription(self) -> Subscription:
        return Subscription(webhook=self.url, events=tuple(event.value for event in self.events), models=self.models)

    def secret(self) -> str:
        """The secret as the environment has it now: `whsec_` and at least 24 bytes in base64."""
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


def check_webhooks(webhooks: Sequence[WebhookConfig], models: Sequence[str]) -> None:
    """Raise `ValueError` where two have one address, or one is for a model that is not served."""
    urls = [webhook.url for webhook in webhooks]
    for at, webhook in enumerate(webhooks):
        if urls.index(webhook.url) < at:
            raise ValueError(f"review.webhooks.{at}: {webhook.url} is there twice; write all its events in one place")
        for model in webhook.models or ():
            if model not in models:
                raise ValueError(f"review.webhooks.{at}: there is no model {model!r}; there are: {', '.join(models)}")


def check_secrets(webhooks: Sequence[WebhookConfig]) -> None:
    """Raise `NoSecret` where the secret of one is not in the environment."""
    for webhook in webhooks:
        webhook.secret()
