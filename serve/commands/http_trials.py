"""Whether what is asked over HTTP answers: endpoints of language models, and a provider of logins."""

import json
import os
import re
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx

from serve.commands.trials import Finding, Untried, Wrong
from serve.config.access import OidcConfig, is_loopback
from serve.config.hosts import OpenAIHost
from serve.config.nearest import one_of

SECONDS = 10.0
"""For each address."""

MOST_BYTES = 10_000_000
"""Of an answer that are read."""

REDIRECTED = 300
REFUSED = (401, 403)
NOT_OFFERED = (400, 404, 405, 501)
"""How endpoints answer that do not list their models."""


class NoAnswer(RuntimeError):
    """An address does not answer. The message says why."""


def try_endpoint(name: str, host: OpenAIHost, *, offline: bool) -> Iterator[Finding]:
    """Whether an endpoint is there, takes the key, and knows the model. Nothing is asked of the model itself."""
    place = ("models", name, "host")
    key = os.environ.get(host.api_key_env, "").strip()
    if not key and not is_loopback(urlsplit(host.base_url).hostname or ""):
        yield Wrong(
            (*place, "api_key_env"),
            f"the environment variable {host.api_key_env} is not set, and it should hold the key for {host.base_url}",
        )
        return
    if offline:
        yield Untried(f"the endpoint of {name}, {host.base_url} (--offline)")
        return
    url = f"{host.base_url}/models"
    try:
        status, body = _got(url, {"Authorization": f"Bearer {key}"} if key else {})
    except NoAnswer as error:
        yield Wrong((*place, "base_url"), f"{host.base_url} {error}")
        return
    if status in REFUSED:
        whose = f"the key in {host.api_key_env}" if key else f"requests without a key; set {host.api_key_env}"
        yield Wrong((*place, "api_key_env"), f"{host.base_url} refuses {whose} ({status})")
    elif status in NOT_OFFERED:
        yield Untried(f"whether {host.base_url} knows {host.model!r}: it does not list its models ({status})")
    elif status >= REDIRECTED:
        yield Wrong((*place, "base_url"), f"{url} answers {status}; correct the address, or try again later")
    elif (known := _listed(body)) is None:
        yield Wrong((*place, "base_url"), f"{url} lists no models; the address of most endpoints ends in /v1")
    elif not any(_same_model(host.model, one) for one in known):
        yield Wrong((*place, "model"), f"{host.base_url} lists no such model: {one_of(host.model, known)}")


def try_provider(oidc: OidcConfig, *, offline: bool) -> Iterator[Finding]:
    """Whether a provider of OpenID Connect describes itself as who it is said to be."""
    if offline:
        yield Untried(f"the provider of logins, {oidc.issuer} (--offline)")
        return
    url = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        status, body = _got(url, {})
    except NoAnswer as error:
        yield Wrong(("access", "oidc", "issuer"), f"{oidc.issuer} {error}")
        return
    told = _as_json(body)
    issuer = told.get("issuer") if isinstance(told, dict) else None
    if status != 200 or issuer != oidc.issuer:
        said = f"calls itself {issuer!r}" if status == 200 and issuer else f"describes no provider at {url} ({status})"
        yield Wrong(("access", "oidc", "issuer"), f"{oidc.issuer} {said}")


def _got(url: str, headers: dict[str, str]) -> tuple[int, bytes]:
    """The status and the body of an answer, read for so long and so far as is worth while. Raises `NoAnswer`."""
    deadline, body = time.monotonic() + SECONDS, b""
    try:
        with httpx.stream("GET", url, headers=headers, timeout=SECONDS) as answer:
            for block in answer.iter_bytes():
                body += block
                if len(body) > MOST_BYTES or time.monotonic() > deadline:
                    raise NoAnswer("answers without end")
            return answer.status_code, body
    except httpx.TimeoutException:
        raise NoAnswer(f"gives no answer within {SECONDS:g} s") from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoAnswer(f"cannot be reached: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Without the numbers that systems give to errors."""
    return re.sub(r"\[Errno -?\d+\] ", "", str(error).split("\n")[0]) or type(error).__name__


def _listed(body: bytes) -> list[str] | None:
    """The names of the models that an endpoint lists; None where it lists none."""
    told = _as_json(body)
    models = told.get("data") if isinstance(told, dict) else None
    if not isinstance(models, list):
        return None
    return [one["id"] for one in models if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _same_model(wanted: str, known: str) -> bool:
    """Whether an endpoint means this model: some list it under a folder, such as `models/`, and take it without."""
    return wanted == known or known.endswith(f"/{wanted}") or wanted.endswith(f"/{known}")


def _as_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
