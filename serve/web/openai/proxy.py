"""Chat completions of models for which demur is switched off: passed through, with no decision and no record."""

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
from uuid_utils.compat import uuid7

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.contract import wire
from demur.serve.contract.engine import Asking, EngineFailed
from demur.serve.contract.hosts import HostClient
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.hosts.endpoint_http import MOST_OF_AN_ERROR
from demur.serve.hosts.language.endpoint_client import read_refusal
from demur.serve.hosts.language.refused_parameters import LIMITS, change_for
from demur.serve.web.openai import request as chat
from demur.serve.web.openai.bounds import BoundedRequest, within_bounds
from demur.serve.web.openai.conversation import PassedThrough
from demur.serve.web.openai.errors import problem_of
from demur.serve.web.openai.events import DONE, event_of
from demur.serve.web.openai.reply import completion_id
from demur.uncertainty.generation import Generation

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}

PASSED_BACK = ("content-type", "content-encoding", "retry-after", "x-request-id")
"""Headers of an endpoint that its caller may see."""


class CutOff(ConnectionError):
    """A reply that is passed through took longer than `chat.bounds.seconds`, and what had come of it stands alone."""


class Proxy:
    """The way past demur."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None
        self._limit_names: dict[str, str] = {}
        """Of each endpoint, the name under which it takes the longest reply."""

    async def pass_on(
        self, name: str, model: ModelConfig, client: HostClient, content: Mapping[str, Any]
    ) -> PassedThrough:
        """Let the endpoint behind the model answer, or its engine. Raises `InvalidRequest` for what is above a bound,
        and `EngineFailed` where nobody answers."""
        host, bounds = model.host, model.chat.passed_on
        assert isinstance(host, LanguageHost)
        deadline = asyncio.get_running_loop().time() + bounds.seconds
        if isinstance(host, OpenAIHost):
            limit_name = self._limit_names.get(host.base_url, LIMITS[0])
            asked = within_bounds(content, bounds, host, limit_name=limit_name)
            return await self._forward(host, asked, limit_name, deadline)
        within_bounds(content, bounds, host, limit_name=LIMITS[0])
        request = chat.read_plain_request(content)
        asking = _asking(request, host, bounds.longest_reply(host))
        if not request.stream:
            async with _in_time(deadline):
                generations = await client.complete(request.input["messages"], asking)
            return PassedThrough(status=200, headers=JSON, body=_at_once(wire.dump(_whole(name, generations))))
        if request.n not in (None, 1):
            raise InvalidRequest("n: a stream is one reply; ask for n = 1, or without `stream`")
        return PassedThrough(status=200, headers=EVENTS, body=_streamed(name, client, request, asking, deadline))

    async def close(self) -> None:
        """Let go of the connections that are open."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _forward(
        self, host: OpenAIHost, asked: BoundedRequest, limit_name: str, deadline: float
    ) -> PassedThrough:
        """Nothing is changed but the name of the model, which the endpoint may know by another one, and the longest
        reply where the request names none."""
        content = {**asked.content, "model": host.model}
        response = await self._sent(host, content, deadline)
        parts, said = response.aiter_raw(), b""
        if asked.limit_added and response.status_code in (400, 422):
            said = await _beginning(response, parts, deadline)
            if change := change_for(read_refusal(said), {limit_name: content[limit_name]}):
                await response.aclose()
                response = await self._sent(host, change.applied(content), deadline)
                parts, said = response.aiter_raw(), b""
                if response.status_code < 400:
                    (self._limit_names[host.base_url],) = change.instead
        body = _raw(response, parts, deadline, before=said)
        return PassedThrough(status=response.status_code, headers=_kept(response), body=body)

    async def _sent(self, host: OpenAIHost, content: Mapping[str, Any], deadline: float) -> httpx.Response:
        if self._client is None:  # in the loop in which it is used
            limits = httpx.Limits(max_connections=None)
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(host.timeout_seconds), limits=limits)
        headers = {**JSON, "accept-encoding": "identity"}
        if key := os.environ.get(host.api_key_env):
            headers["authorization"] = f"Bearer {key}"
        request = self._client.build_request(
            "POST",
            f"{host.base_url}/chat/completions",
            content=json.dumps(content).encode(),  # and never as it came, where a key may stand twice
            headers=headers,
            timeout=host.timeout_seconds,
        )
        try:
            async with _in_time(deadline):
                return await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise EngineFailed(f"{host.base_url} does not answer ({type(error).__name__}); try again") from error


def _kept(response: httpx.Response) -> dict[str, str]:
    return {name: response.headers[name] for name in PASSED_BACK if name in response.headers}


@asynccontextmanager
async def _in_time(deadline: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except TimeoutError:
        raise EngineFailed("the reply took longer than is passed on (chat.bounds.seconds)") from None


async def _beginning(response: httpx.Response, parts: AsyncIterator[bytes], deadline: float) -> bytes:
    """What an endpoint says in an error; of a very long one the beginning, and the rest is still to come."""
    said = b""
    try:
        async with _in_time(deadline):
            while len(said) < MOST_OF_AN_ERROR and (part := await anext(parts, None)) is not None:
                said += part
    except BaseException as error:
        await response.aclose()
        if isinstance(error, httpx.TransportError):
            raise EngineFailed("the endpoint broke off in its reply; try again") from None
        raise
    return said


async def _raw(
    response: httpx.Response, parts: AsyncIterator[bytes], deadline: float, *, before: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """A reply as it comes, after what has come of it before. One that breaks off, or takes too long, ends with an
    error, in words where it is a stream of events."""
    try:
        if before:
            yield before
        while True:
            async with _in_time(deadline):
                part = await anext(parts, None)
            if part is None:
                return
            yield part
    except (EngineFailed, httpx.TransportError) as error:
        failed = error if isinstance(error, EngineFailed) else EngineFailed("the endpoint broke off in its reply")
        if "event-stream" not in response.headers.get("content-type", ""):
            raise CutOff(str(failed)) from None
        _, problem = problem_of(failed)
        yield b"\n\n" + event_of(problem)
    finally:
        await response.aclose()


async def _at_once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _streamed(
    name: str, client: HostClient, request: chat.PlainRequest, asking: Asking, deadline: float
) -> AsyncGenerator[bytes, None]:
    same = {"id": completion_id(uuid7()), "object": "chat.completion.chunk", "created": _now(), "model": name}
    usage = {"usage": None} if request.wants_usage else {}

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event_of({**same, "choices": [choice], **usage})

    yield event({"role": "assistant", "content": ""})
    try:
        async with aclosing(client.pieces(request.input["messages"], asking)) as pieces:
            while True:
                async with _in_time(deadline):
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if piece.text:
                    yield event({"content": piece.text})
                if piece.whole is not None:
                    yield event({}, piece.whole.finish_reason)
                    if request.wants_usage:
                        yield event_of({**same, "choices": [], "usage": _usage([piece.whole])})
        yield DONE
    except Exception as error:
        _, problem = problem_of(error)
        yield event_of(problem)


def _asking(request: chat.PlainRequest, host: LanguageHost, longest: int) -> Asking:
    stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    return Asking(
        max_tokens=request.max_completion_tokens or request.max_tokens or min(host.max_tokens, longest),
        n=request.n or 1,
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=request.top_p or 1.0,
        seed=request.seed,
        stop=stop,
    )


def _whole(name: str, generations: Sequence[Generation]) -> dict[str, Any]:
    return {
        "id": completion_id(uuid7()),
        "object": "chat.completion",
        "created": _now(),
        "model": name,
        "choices": [
            {
                "index": at,
                "message": {"role": "assistant", "content": generation.text, "refusal": None},
                "logprobs": None,
                "finish_reason": generation.finish_reason,
            }
            for at, generation in enumerate(generations)
        ],
        "usage": _usage(generations),
    }


def _usage(generations: Sequence[Generation]) -> dict[str, int]:
    """The prompt counts once."""
    read, written = generations[0].prompt_tokens, sum(one.completion_tokens for one in generations)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _now() -> int:
    return int(time.time())
