"""HTTP to one endpoint that speaks OpenAI's chat completions: in time, in bounds, and in words where it fails."""

import json
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from demur.serve.contract.engine import CannotGive, EngineFailed
from demur.serve.hosts.endpoint_http import SHOWN, EndpointHttp, TimeLimit, content_of, media_type
from demur.serve.hosts.language.refused_parameters import Refusal
from demur.serve.hosts.outages import outage_of_status, retry_after

OF_THE_ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers, and the environment variables that the official client takes them from."""

T = TypeVar("T")


class RequestRefused(EngineFailed):
    """The endpoint does not take this request. `refusal` holds its own words."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message)
        self.refusal = refusal


class EndpointClient:
    """Sends requests to one endpoint. Redirects are not followed: inputs go where the configuration says."""

    def __init__(self, base_url: str, *, key_name: str, concurrency: int) -> None:
        """Raises `CannotGive` where the endpoint needs a key, and the environment has none."""
        self.base_url = base_url
        self._key_name = key_name
        self._key = _key(base_url, key_name)
        account = {header: os.environ[name] for header, name in OF_THE_ACCOUNT.items() if os.environ.get(name)}
        self._http = EndpointHttp(
            base_url,
            headers={"Authorization": f"Bearer {self._key or 'none'}", **account},
            secrets=[self._key] if self._key else [],
            concurrency=concurrency,
        )

    async def close(self) -> None:
        await self._http.close()

    async def get(self, path: str, *, limit: TimeLimit, most_bytes: int) -> Any:
        """Return the JSON at a path. Raises as `post` does."""
        return await self._http.in_time(limit, 0, lambda: self._whole("GET", path, None, most_bytes))

    async def post(self, path: str, body: Mapping[str, Any], *, limit: TimeLimit, retries: int, most_bytes: int) -> Any:
        """Return the JSON of a reply of at most so many bytes.

        A request that fails in passing is sent again, up to `retries` times and within the limit in all, after the
        time that the endpoint names or one that grows. Raises `EndpointAway` in an outage, `RequestRefused` where this
        request is not taken, and `EngineFailed` where the reply cannot be read.
        """
        return await self._http.in_time(limit, retries, lambda: self._whole("POST", path, body, most_bytes))

    @asynccontextmanager
    async def events(
        self, path: str, body: Mapping[str, Any], *, limit: TimeLimit, retries: int, most_bytes: int
    ) -> AsyncGenerator[AsyncGenerator[Any, None], None]:
        """Give the JSON of each event of a streamed reply, all of which come within the limit; raises as `post` does,
        while it is opened and while it is read."""
        async with self._http.until(limit):
            await self._http.slots.acquire()
        try:
            async with self._http.until(limit):
                response = await self._http.tried(limit, retries, lambda: self._opened("POST", path, body))
            try:
                if (kind := media_type(response)) != "text/event-stream":
                    async with self._http.until(limit):
                        whole = self._json(response, await self._http.body(response, most_bytes))
                    self._check_no_error(whole, response)
                    raise EngineFailed(f"{self.base_url} does not stream: it answered with {kind or 'no type'}")
                async with aclosing(self._events(response, limit, most_bytes)) as events:
                    yield events
            finally:
                await response.aclose()
        finally:
            self._http.slots.release()

    def told(self, said: str) -> str:
        """What an endpoint said, in one line, without our key, which some repeat, and without what no log can show."""
        return self._http.told(said)

    async def _whole(self, method: str, path: str, body: Mapping[str, Any] | None, most_bytes: int) -> Any:
        response = await self._opened(method, path, body)
        try:
            content = self._json(response, await self._http.body(response, most_bytes))
        finally:
            await response.aclose()
        self._check_no_error(content, response)
        return content

    async def _opened(self, method: str, path: str, body: Mapping[str, Any] | None) -> httpx.Response:
        """A response with status 200, of which nothing has been read but its head."""
        content = None if body is None else json.dumps(body).encode()
        response = await self._http.opened(method, f"{self.base_url}/{path}", content)
        if response.status_code == 200:
            return response
        raise self._failure(response.status_code, await self._http.error_of(response), response)

    async def _events(self, response: httpx.Response, limit: TimeLimit, most: int) -> AsyncGenerator[Any, None]:
        """The data of each server-sent event but the last, [DONE]."""
        begun: list[bytes] = []  # parts of a line, joined once: a line that never ends costs no more than its bytes
        async with aclosing(self._http.parts(response, most)) as parts:
            while True:
                async with self._http.until(limit):
                    part = await anext(parts, None)
                first, *more = (b"\n" if part is None else part).split(b"\n")
                begun.append(first)
                for line in more:
                    whole, begun = b"".join(begun), [line]
                    data = whole.removeprefix(b"data:").strip() if whole.startswith(b"data:") else b""
                    if data == b"[DONE]":
                        return
                    if data:
                        event = self._json(response, data)
                        self._check_no_error(event, response)
                        yield event
                if part is None:
                    return

    def _json(self, response: httpx.Response, content: bytes) -> Any:
        kind = media_type(response)
        self._http.check_no_page(response, content, setting="host.base_url")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            came = f"which begins {self._http.shown(content)}" if content.strip() else "which is empty"
            raise EngineFailed(f"{self.base_url} sent a reply that is not JSON ({kind or 'no type'}, {came})") from None

    def _check_no_error(self, content: Any, response: httpx.Response) -> None:
        """Raise where an endpoint says with status 200 that something went wrong, as some do."""
        if isinstance(content, dict) and content.get("error") and not content.get("choices"):
            error = content["error"]
            status = error.get("code") if isinstance(error, dict) else None
            known = status if isinstance(status, int) and 400 <= status < 600 else 200
            raise self._failure(known, content, response)

    def _failure(self, status: int, content: Any, response: httpx.Response) -> EngineFailed:
        """What a status other than 200, or an error in the place of a reply, means."""
        refusal = _refusal(content)
        refusal = replace(refusal, message=self.told(refusal.message))
        said = refusal.message or "nothing more"
        passes = outage_of_status(status, refusal.code)
        if status == 403 and _is_about_the_input(refusal, said):
            passes = None
        if passes is not None:
            what, why = f"answered {status}", f"answered {status}: {said[:300]}"
            if status in (401, 403):
                what = "refused the key"
                why = f"{what} in {self._key_name} ({status}: {said[:300]})"
            elif location := response.headers.get("location"):
                why += f" (it points to {location[:SHOWN]!r}, and redirects are not followed)"
            return self._http.away(what, why, passes=passes, seconds=retry_after(response.headers) if passes else None)
        if status in (400, 403, 422):
            return RequestRefused(f"{self.base_url} refused the request: {said[:300]}", refusal)
        return EngineFailed(f"{self.base_url} answered {status}: {said[:300]}")


def _is_about_the_input(refusal: Refusal, said: str) -> bool:
    """Whether a 403 is about this request: a parameter that the model does not have, or a text that is not taken."""
    words = f"{said} {refusal.code or ''}".lower()
    return any(
        word in words for word in ("logprob", "flagged", "moderation", "content polic", "content_polic", "safety")
    )


def _refusal(content: Any) -> Refusal:
    """What an error says, in the shapes in which endpoints say it."""
    if isinstance(content, str):
        return Refusal(message=" ".join(content.split()))
    if not isinstance(content, dict):
        return Refusal(message="")
    if isinstance(detail := content.get("detail"), list) and detail and isinstance(detail[0], dict):  # FastAPI's
        place = [str(step) for step in detail[0].get("loc") or () if step != "body"]
        return Refusal(message=f"{'.'.join(place)}: {detail[0].get('msg')}", param=place[-1] if place else None)
    error = content.get("error", content)
    if isinstance(error, dict):
        message, param, code = (error.get(name) for name in ("message", "param", "code"))
        if not isinstance(message, str):
            message = error.get("detail") if isinstance(error.get("detail"), str) else ""
    else:
        message, param, code = error if isinstance(error, str) else "", None, content.get("code")
    return Refusal(
        message=" ".join(str(message).split()),
        param=param if isinstance(param, str) else None,
        code=code if isinstance(code, str) else None,
    )


def read_refusal(said: bytes) -> Refusal:
    """What the body of an error says."""
    return _refusal(content_of(said))


def _key(base_url: str, key_name: str) -> str | None:
    """The key that the environment holds; an endpoint on this machine may do without."""
    key = (os.environ.get(key_name) or "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise CannotGive(f"the key in {key_name} has characters that no HTTP header can hold; correct it")
    if key:
        return key
    if _is_here(urlsplit(base_url).hostname or ""):
        return None
    raise CannotGive(f"{base_url} needs a key, and the environment has no {key_name}")


def _is_here(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
