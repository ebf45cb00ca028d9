"""Chat completions of models for which demur is switched off: passed through, with no decision and no record."""

import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import httpx
from uuid_utils.compat import uuid7

from serve import wire
from serve.chat import request as chat
from serve.chat.conversation import PassedThrough
from serve.chat.errors import problem_of
from serve.chat.events import DONE, event_of
from serve.chat.reply import completion_id
from serve.config.hosts import AnyLanguageHost, OpenAIHost
from serve.gateway.road import HostClient
from serve.inputs import InvalidRequest
from serve.language.engine import Asking, EngineFailed
from uncertainty.generation import Generation

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}

PASSED_BACK = ("content-type", "content-encoding", "retry-after", "x-request-id")
"""Headers of an endpoint that its caller may see."""


class Proxy:
    """The way past demur."""

    def __init__(self) -> None:
        self._client: httpx.AsyncClient | None = None

    async def pass_on(
        self, name: str, host: AnyLanguageHost, client: HostClient, body: bytes, content: Mapping[str, Any]
    ) -> PassedThrough:
        """Let the endpoint behind the model answer, or its engine. Raises `EngineFailed` where it does not answer."""
        if isinstance(host, OpenAIHost):
            return await self._forward(host, body, content)
        request = chat.read_plain_request(content)
        if not request.stream:
            generations = await client.complete(request.input["messages"], _asking(request, host))
            return PassedThrough(status=200, headers=JSON, body=_at_once(wire.dump(_whole(name, generations))))
        if request.n not in (None, 1):
            raise InvalidRequest("n: a stream is one reply; ask for n = 1, or without `stream`")
        return PassedThrough(status=200, headers=EVENTS, body=_streamed(name, client, request, _asking(request, host)))

    async def close(self) -> None:
        """Let go of the connections that are open."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _forward(self, host: OpenAIHost, body: bytes, content: Mapping[str, Any]) -> PassedThrough:
        """Nothing is changed but the name of the model, which the endpoint may know by another one."""
        if content["model"] != host.model:
            body = wire.dump({**content, "model": host.model})
        if self._client is None:  # in the loop in which it is used
            limits = httpx.Limits(max_connections=None)
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(host.timeout_seconds), limits=limits)
        headers = {**JSON, "accept-encoding": "identity"}
        if key := os.environ.get(host.api_key_env):
            headers["authorization"] = f"Bearer {key}"
        request = self._client.build_request(
            "POST", f"{host.base_url}/chat/completions", content=body, headers=headers, timeout=host.timeout_seconds
        )
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise EngineFailed(f"{host.base_url} does not answer ({type(error).__name__}); try again") from error
        kept = {name: response.headers[name] for name in PASSED_BACK if name in response.headers}
        return PassedThrough(status=response.status_code, headers=kept, body=_raw(response))


async def _raw(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    try:
        async for part in response.aiter_raw():
            yield part
    finally:
        await response.aclose()


async def _at_once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _streamed(
    name: str, client: HostClient, request: chat.PlainRequest, asking: Asking
) -> AsyncGenerator[bytes, None]:
    same = {"id": completion_id(uuid7()), "object": "chat.completion.chunk", "created": _now(), "model": name}
    usage = {"usage": None} if request.wants_usage else {}

    def event(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event_of({**same, "choices": [choice], **usage})

    yield event({"role": "assistant", "content": ""})
    try:
        async with aclosing(client.pieces(request.input["messages"], asking)) as pieces:
            async for piece in pieces:
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


def _asking(request: chat.PlainRequest, host: AnyLanguageHost) -> Asking:
    stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    return Asking(
        max_tokens=request.max_completion_tokens or request.max_tokens or host.max_tokens,
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
