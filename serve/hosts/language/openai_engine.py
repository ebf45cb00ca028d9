"""A language model behind one endpoint that speaks OpenAI's chat completions, or behind several that serve the same."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TypeVar

from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed, Gives, LabelLogprobs, Piece
from demur.serve.contract.messages import Message
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.language.openai_endpoint import OpenAIEndpoint
from demur.serve.hosts.outages import EndpointAway, Rest
from demur.uncertainty.generation import Generation

log = logging.getLogger("demur.language")

T = TypeVar("T")


class OpenAIEngine:
    """Asks the first endpoint, and where that is away the following one. Each of them has its share of the time."""

    def __init__(self, host: OpenAIHost) -> None:
        self._host = host
        self._endpoints = [OpenAIEndpoint(host, endpoint) for endpoint in host.all_endpoints]
        self._rests = [Rest() for _ in self._endpoints]

    @classmethod
    async def started(cls, host: OpenAIHost) -> "OpenAIEngine":
        """Nothing is asked yet: an endpoint that is away for a moment keeps no service from starting. Raises
        `CannotGive` where a key is missing."""
        return cls(host)

    @property
    def gives(self) -> frozenset[Gives]:
        if not self._host.gives_logprobs:
            return frozenset({"constrained"})
        return frozenset({"logprobs", "top_logprobs", "label_logprobs", "constrained"})

    def remarks(self) -> list[str]:
        away = [words for rest in self._rests if (words := rest.in_words)]
        return [*away, *(words for endpoint in self._endpoints for words in endpoint.refused.in_words)]

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        replies, where = await self._first_there(
            lambda endpoint, limit: endpoint.generate(messages, asking, limit=limit)
        )
        return [replace(reply, elsewhere=where) for reply in replies] if where else replies

    async def label_logprobs(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        *,
        first_token: bool,
        without: frozenset[str] = frozenset(),
    ) -> LabelLogprobs:
        """NaN nowhere: a label that is not listed has the most that it can have."""
        address = self._host.base_url
        if not first_token:
            raise CannotGive(f"{address} cannot score whole labels; set prompt.probabilities to first_token or samples")
        if not self._host.gives_logprobs:
            raise CannotGive(
                f"{address} gives no log-probabilities (host.gives_logprobs: false); set prompt.probabilities to"
                " samples"
            )
        told, where = await self._first_there(
            lambda endpoint, limit: endpoint.label_logprobs(messages, labels, without=without, limit=limit)
        )
        return replace(told, elsewhere=where)

    async def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        """An endpoint that goes away once it has begun is not replaced: another one would write another reply."""
        async with AsyncExitStack() as opened:
            pieces, where = await self._first_there(
                lambda endpoint, limit: opened.enter_async_context(endpoint.stream(messages, asking, limit=limit))
            )
            async for piece in pieces:
                yield piece if piece.whole is None else replace(piece, whole=replace(piece.whole, elsewhere=where))

    async def check_health(self) -> None:
        """Nothing: an endpoint that is away does not come back because this process is started anew."""

    async def close(self) -> None:
        for endpoint in self._endpoints:
            await endpoint.close()

    async def _first_there(self, ask: Callable[[OpenAIEndpoint, TimeLimit], Awaitable[T]]) -> tuple[T, str]:
        """What the first endpoint says that is there; and its address, where it is not the first of all. Raises what
        the last one raised."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._host.timeout_seconds
        turns = list(self._turns(loop.time()))
        for left, at in zip(range(len(turns), 0, -1), turns, strict=True):
            endpoint, rest = self._endpoints[at], self._rests[at]
            try:
                done = await ask(endpoint, TimeLimit.of(max((deadline - loop.time()) / left, 0.0)))
            except EndpointAway as away:
                if rest.failed(away.outage, loop.time()):
                    log.warning("%s", away)
                if left == 1:
                    raise
            except EngineFailed:  # it is there, and does not like the request
                self._is_there(at)
                raise
            else:
                self._is_there(at)
                return done, endpoint.address if at else ""
        raise AssertionError("there is at least one endpoint")

    def _turns(self, now: float) -> Iterator[int]:
        """Who is asked, in turn: those that rest come in only where all do."""
        ready = [at for at, rest in enumerate(self._rests) if len(self._rests) == 1 or not rest.is_passed_over(now)]
        return iter(ready or range(len(self._endpoints)))

    def _is_there(self, at: int) -> None:
        if self._rests[at].answered():
            log.warning("%s answers again", self._endpoints[at].address)
