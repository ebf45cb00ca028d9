"""What every server is to the model that asks it, whichever protocol it speaks; and what is asked over HTTP."""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.inputs import ModelInput
from demur.serve.hosts.endpoint_http import SHOWN, EndpointHttp, TimeLimit
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.outages import LASTING, EndpointAway, retry_after
from demur.serve.hosts.remote.metadata import RemoteMetadata
from demur.serve.hosts.remote.replies import RemoteReply

PASSING = frozenset({429, 502, 503, 504})
"""Statuses after which a request is sent again. A 500 is none: servers give it where a model fails on its input."""

DONE = (200, 201)


class InputRefused(BadModelOutput):
    """The server does not take a request, or its model failed on it. The message has the server's words."""


class RemoteServer(Protocol):
    """A server, in the loop in which it was opened."""

    async def ask(self, inputs: Sequence[ModelInput], limit: TimeLimit) -> RemoteReply:
        """Return what the server says. Raises `EndpointAway` where it could not be asked, and `BadModelOutput` where it
        refuses these inputs, or where nothing can be read from its reply."""
        ...

    async def metadata(self, limit: TimeLimit) -> RemoteMetadata | None:
        """Return what the server says of its model, None where it does not tell. Raises as `ask` does."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class HttpAnswer:
    """A whole reply over HTTP with a status that says it is one."""

    content: bytes
    headers: Mapping[str, str]


class RemoteHttp:
    """HTTP to the server of a model."""

    def __init__(self, host: RemoteSettings) -> None:
        """Raises `BadModel` where a secret or a certificate is missing."""
        secrets = secret_headers(host)
        self._host = host
        self.http = EndpointHttp(
            host.url,
            headers={**host.headers, **secrets},
            secrets=list(secrets.values()),
            concurrency=host.connections,
            verify=ssl.create_default_context(cafile=_readable(host.ca)) if host.ca else True,
        )

    async def close(self) -> None:
        await self.http.close()

    async def post(self, url: str, content: bytes, limit: TimeLimit, headers: Mapping[str, str]) -> HttpAnswer:
        """Send a request, again where it fails in passing. Raises as `RemoteServer.ask` does, and `TooLong`."""
        return await self.http.in_time(limit, self._host.retries, lambda: self._answer("POST", url, content, headers))

    async def get(self, url: str, limit: TimeLimit) -> HttpAnswer:
        return await self.http.in_time(limit, 0, lambda: self._answer("GET", url, None, {}))

    async def _answer(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> HttpAnswer:
        response = await self.http.opened(method, url, content, headers)
        if response.status_code not in DONE:
            raise self._failure(response, await self.http.error_of(response))
        try:
            body = await self.http.body(response, self._host.reply_bytes)
        finally:
            await response.aclose()
        self.http.check_no_page(response, body, setting="host.url")
        return HttpAnswer(body, response.headers)

    def _failure(self, response: httpx.Response, content: Any) -> Exception:
        """What a status that is none of a reply means."""
        status, said = response.status_code, self.http.told(said_in(content))[:300] or "nothing more"
        why = f"answered {status}: {said}"
        if status in (401, 403):
            return self._away(f"refused us ({status})", f"{why}; see host.headers_env", passes=False)
        if status in LASTING or 300 <= status < 400:
            if location := response.headers.get("location"):
                why += f" (it points to {location[:SHOWN]!r}, and redirects are not followed; see host.url)"
            elif status == 404:
                why += "; see host.url and host.model"
            return self._away(f"answered {status}", why, passes=False)
        if status in PASSING:
            seconds = retry_after(response.headers)
            return self.http.away(f"answered {status}", why, passes=True, seconds=seconds)
        if 200 < status < 300:
            return BadModelOutput(f"{self._host.url} answered {status}, which brings no prediction; 200 is wanted")
        return InputRefused(f"{self._host.url} {why}")

    def _away(self, what: str, why: str, *, passes: bool) -> EndpointAway:
        return self.http.away(what, why, passes=passes)


def said_in(content: Any) -> str:
    """The words of an error, in the shapes in which servers say it."""
    if isinstance(content, Mapping):
        for key in ("error", "detail", "message"):
            if (found := content.get(key)) is not None:
                return said_in(found) if isinstance(found, Mapping) else str(found)
    return str(content)


def secret_headers(host: RemoteSettings) -> dict[str, str]:
    """Return the headers whose values the environment holds. Raises `BadModel` where one is missing."""
    found = {}
    for header, name in host.headers_env.items():
        value = os.environ.get(name, "").strip()
        if not value:
            raise BadModel(
                f"host.headers_env: the environment variable {name} is not set, and it should hold the header {header}"
            )
        if not (value.isascii() and value.isprintable()):
            raise BadModel(f"host.headers_env: what {name} holds has characters that no header can have; correct it")
        found[header] = value
    return found


def certificates(host: RemoteSettings) -> bytes | None:
    """Return the certificates that are trusted; None for those of this machine. Raises `BadModel`."""
    if host.ca is None:
        return None
    with open(_readable(host.ca), "rb") as file:
        return file.read()


def _readable(path: str) -> str:
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise BadModel(f"host.ca: no certificates can be read from {path}: {error.strerror or error}") from None
    return path
