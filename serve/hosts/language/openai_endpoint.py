"""One endpoint that speaks OpenAI's chat completions, in so far as endpoints do: what is asked of it, and how."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from demur.serve.config.hosts.endpoint import EndpointConfig, OpenAIHost
from demur.serve.contract.engine import (
    Asking,
    CannotGive,
    EngineFailed,
    LabelLogprobs,
    LabelNotListed,
    LabelsUntold,
    Piece,
)
from demur.serve.contract.messages import Message
from demur.serve.contract.printable import printable
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.language import endpoint_reply
from demur.serve.hosts.language.endpoint_client import EndpointClient, RequestRefused
from demur.serve.hosts.language.endpoint_reply import EndpointChoice, Tokens
from demur.serve.hosts.language.reasoning import ReasoningStream, cut_off, split
from demur.serve.hosts.language.refused_parameters import (
    ParameterChange,
    RefusedParameters,
    change_for,
    left_out,
    without,
)
from demur.serve.hosts.outages import EndpointAway
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.generation import Generation
from demur.uncertainty.listed_labels import LabelUndecided, bounded_logprobs

MOST_ALTERNATIVES = 20
"""That OpenAI's protocol lets anybody ask for."""

CHAT = "chat/completions"

LEAST_BYTES = 2**20
BYTES_OF_A_TOKEN = 1024
BYTES_OF_AN_ALTERNATIVE = 320
"""What a reply may take: the first of these in any case, and the others for each token that was asked for, in an event
of its own, and for each alternative of it."""

SHOWN = 5
"""Tokens that are named where labels are missing."""

SHOWN_CHARACTERS = 80
"""Of JSON that is no completion."""

OF_CONSTRAINED = "log-probabilities of a constrained reply are not the model's own; leave out prompt.constrained"
NEVER = "if it never gives them, set host.gives_logprobs: false and use scores of samples or `rating`"
"""What to say, or to do, where log-probabilities are missing."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class EndpointExchange:
    """How a request was taken in the end."""

    left_out: frozenset[str]
    logprobs_refused: str | None
    """In the endpoint's words; None where they were not."""


class OpenAIEndpoint:
    """Learns what its endpoint refuses, and asks for that no more."""

    def __init__(self, host: OpenAIHost, endpoint: EndpointConfig) -> None:
        """Raises `CannotGive` where the key is missing."""
        self._host = host
        self._model = endpoint.model or host.model
        self.address = endpoint.base_url
        self._client = EndpointClient(
            endpoint.base_url, key_name=endpoint.api_key_env or host.api_key_env, concurrency=host.concurrency
        )
        self.refused = RefusedParameters(self.address)
        self._takes_n = True
        self._is_vllm: bool | None = None

    async def close(self) -> None:
        await self._client.close()

    async def generate(self, messages: Sequence[Message], asking: Asking, *, limit: TimeLimit) -> list[Generation]:
        """`asking.n` are asked for at once; an endpoint that gives fewer is asked for the rest one by one."""
        body = await self._body(messages, asking, limit)
        replies: list[Generation] = []
        if asking.n > 1 and self._takes_n:
            with contextlib.suppress(RequestRefused):  # if it was not for their number, it is refused again
                replies = (await self._asked({**body, "n": asking.n}, asking, limit))[: asking.n]
        missing = range(len(replies), asking.n)
        singles = await _all(self._asked({**body, **_seeded(asking, index)}, asking, limit) for index in missing)
        if asking.n > 1 and singles:
            self._takes_n = False
        return [*replies, *(single[0] for single in singles)]

    async def label_logprobs(
        self, messages: Sequence[Message], labels: Sequence[str], *, without: frozenset[str], limit: TimeLimit
    ) -> LabelLogprobs:
        """A label that is not among the alternatives that the endpoint lists has the most that it can have. Raises
        `LabelsUntold` where it could then be the most probable one."""
        asking = Asking(
            max_tokens=1, temperature=1.0, seed=0, logprobs=True, top_logprobs=MOST_ALTERNATIVES, without=without
        )
        body = await self._body(messages, asking, limit)
        content, sent = await self._adapted(body, asking, lambda taken: self._posted(taken, asking, limit))
        with self._understood(content):
            choices, used = endpoint_reply.choices_of(content), endpoint_reply.tokens_of(content)
        tokens = choices[0].tokens if choices else ()
        if not tokens:
            why = self._no_logprobs(sent, "told no log-probabilities")
            raise LabelsUntold(f"{why}, and set prompt.probabilities to samples or reply")
        top = sorted(tokens[0].top, key=lambda one: one[1], reverse=True)[:MOST_ALTERNATIVES]
        listed, drawn = dict(top), {tokens[0].text: tokens[0].logprob}
        return LabelLogprobs(
            values=self._labels_of(listed or drawn, labels, ranked=bool(listed)),
            prompt_tokens=used.prompt,
            left_out=sent.left_out,
        )

    @contextlib.asynccontextmanager
    async def stream(
        self, messages: Sequence[Message], asking: Asking, *, limit: TimeLimit
    ) -> AsyncIterator[AsyncIterator[Piece]]:
        """Give a reply piece by piece as it is written. The request has been taken by then."""
        body = await self._body(messages, asking, limit)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        async with contextlib.AsyncExitStack() as opened:

            async def open_with(taken: dict[str, Any]) -> AsyncIterator[Any]:
                return await opened.enter_async_context(
                    self._client.events(
                        CHAT, taken, limit=limit, retries=self._host.retries, most_bytes=most_bytes(asking)
                    )
                )

            events, sent = await self._adapted(body, asking, open_with)
            async with aclosing(self._pieces(events, asking, sent)) as pieces:
                yield pieces

    async def _pieces(
        self, events: AsyncIterator[Any], asking: Asking, sent: EndpointExchange
    ) -> AsyncGenerator[Piece, None]:
        heard = endpoint_reply.PartialReply()
        parts = ReasoningStream(stop=asking.stop)
        async for event in events:
            with self._understood(event):
                text, reasoning = heard.add(event)
            if asking.only is not None:  # it may come within JSON
                continue
            more, answer = parts.add(text)
            if reasoning or more or answer:
                yield Piece(text=answer, reasoning=reasoning + more)
        if heard.finish_reason is None:
            raise EngineFailed(
                f"{self.address} broke off in the middle of a reply: the stream ended without a word why"
            )
        whole = self._generation(heard.whole, asking, sent, heard.used, share=(0, 1))
        reasoning, answer = parts.end(None if any(heard.traces) else whole.reasoning, whole.text)
        yield Piece(text=answer, reasoning=reasoning, whole=whole)

    async def _body(self, messages: Sequence[Message], asking: Asking, limit: TimeLimit) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [dict(message) for message in messages],
            "max_tokens": asking.max_tokens,
            "temperature": asking.temperature,
            **_seeded(asking, 0),
        }
        if asking.top_p < 1:
            body["top_p"] = asking.top_p
        if asking.stop:
            body["stop"] = list(asking.stop)
        if asking.logprobs and self._host.gives_logprobs and asking.only is None:
            if asking.top_logprobs > MOST_ALTERNATIVES:
                raise CannotGive(f"{self.address} tells at most {MOST_ALTERNATIVES} alternatives of a token")
            body["logprobs"] = True
            if asking.top_logprobs:
                body["top_logprobs"] = asking.top_logprobs
        if asking.only is not None:
            if await self._speaks_vllm(limit):
                body["structured_outputs"] = {"choice": list(asking.only)}
            else:
                body["response_format"] = _one_of(asking.only)
        if self._host.chat_template_kwargs:
            body["chat_template_kwargs"] = self._host.chat_template_kwargs
        return body | self._host.extra_body

    async def _speaks_vllm(self, limit: TimeLimit) -> bool:
        """Whether it is a vLLM server, which takes a list of texts as it is; others take a schema."""
        if self._is_vllm is None:
            listed = None
            try:
                listed = await self._client.get("models", limit=limit, most_bytes=LEAST_BYTES)
            except EndpointAway as away:
                if away.outage.passes:  # another time it may be told
                    return False
            except EngineFailed:
                pass
            models = listed.get("data") if isinstance(listed, dict) else None
            self._is_vllm = isinstance(models, list) and any(
                isinstance(model, dict) and model.get("owned_by") == "vllm" for model in models
            )
        return self._is_vllm

    async def _asked(self, body: dict[str, Any], asking: Asking, limit: TimeLimit) -> list[Generation]:
        content, sent = await self._adapted(body, asking, lambda taken: self._posted(taken, asking, limit))
        with self._understood(content):
            choices, used = endpoint_reply.choices_of(content), endpoint_reply.tokens_of(content)
        if not choices:
            raise EngineFailed(f"{self.address} sent a reply without choices: {_begins(content)}")
        return [
            self._generation(choice, asking, sent, used, share=(index, len(choices)))
            for index, choice in enumerate(choices)
        ]

    async def _posted(self, body: Mapping[str, Any], asking: Asking, limit: TimeLimit) -> Any:
        return await self._client.post(
            CHAT, body, limit=limit, retries=self._host.retries, most_bytes=most_bytes(asking)
        )

    async def _adapted(
        self, body: Mapping[str, Any], asking: Asking, send: Callable[[dict[str, Any]], Awaitable[T]]
    ) -> tuple[T, EndpointExchange]:
        """Send it without what the endpoint refuses. What it refuses now is left out as well, one parameter at a time,
        and remembered once that was all that stood in the way."""
        fitted = without(body, asking.without)
        changes: list[ParameterChange] = []
        while True:
            sent = self.refused.applied(fitted, changes)
            try:
                done = await send(sent)
                break
            except RequestRefused as error:
                change = change_for(error.refusal, sent, changes)
                if change is None or change.name in self._host.extra_body:
                    raise
                changes.append(change)
        self.refused.remember(changes)
        refused = self.refused.why("logprobs") if "logprobs" in body and "logprobs" not in sent else None
        return done, EndpointExchange(left_out=left_out(body, sent), logprobs_refused=refused)

    def _generation(
        self, choice: EndpointChoice, asking: Asking, sent: EndpointExchange, used: Tokens, *, share: tuple[int, int]
    ) -> Generation:
        if choice.finish_reason == "content_filter":
            raise EngineFailed(f"{self.address} withheld the reply (content_filter)")
        content, reasoning = cut_off(choice.content, asking.stop), choice.reasoning
        if asking.only is not None:
            content = self._chosen(content, asking.only)
        answer_at = 0
        if reasoning is None:
            parts = split(content, opened=None)
            reasoning, answer_at = parts.reasoning, parts.answer_at
        tokens = choice.tokens
        laid = endpoint_reply.laid_over(content, answer_at, tokens) if tokens and asking.only is None else None
        no_logprobs = ""
        if asking.logprobs and laid is None:
            told = "told tokens that do not make up its text" if tokens else "told no log-probabilities"
            no_logprobs = self._no_logprobs(sent, told) if asking.only is None else OF_CONSTRAINED
        total = used.completion or len(tokens)
        index, count = share
        return Generation(
            text=content[answer_at:],
            reasoning=reasoning,
            tokens=laid.tokens if laid else (),
            logprobs=laid.logprobs if laid else None,
            top_logprobs=laid.top_logprobs if laid and asking.top_logprobs else None,
            answer_start=laid.answer_start if laid else 0,
            finish_reason="length" if choice.finish_reason == "length" else "stop",
            prompt_tokens=used.prompt,
            completion_tokens=total // count + (index < total % count),
            no_logprobs=no_logprobs,
            left_out=sent.left_out,
        )

    def _no_logprobs(self, sent: EndpointExchange, told: str) -> str:
        why = f"refuses log-probabilities ({sent.logprobs_refused})" if sent.logprobs_refused else told
        return f"{self.address} {why}; {NEVER}"

    def _labels_of(self, alternatives: Mapping[str, float], labels: Sequence[str], *, ranked: bool) -> Array:
        known = first_logprobs(alternatives, labels)
        try:
            return bounded_logprobs(known, np.array(list(alternatives.values())), ranked=ranked)
        except LabelUndecided:
            missing = ", ".join(repr(label) for label, value in zip(labels, known, strict=True) if np.isnan(value))
            listed = ", ".join(repr(token) for token in list(alternatives)[:SHOWN])
            raise LabelNotListed(
                f"{self.address} lists {len(alternatives)} tokens ({listed}), and not the label {missing[:200]}, which"
                " may be the most probable one; ask for shorter labels, or set prompt.probabilities to samples or reply"
            ) from None
        except InvalidInput as error:
            raise LabelsUntold(f"{self.address} tells log-probabilities that are none: {error}") from None

    def _chosen(self, content: str, only: Sequence[str]) -> str:
        """Take a text out of the JSON that it came in. Raises `CannotGive` where it is none of those allowed."""
        text = content.strip()
        if text not in only:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["reply"]
        if text not in only:
            raise CannotGive(
                f"{self.address} does not keep to the texts that a reply must be one of;"
                " set prompt.constrained to false"
            )
        return text

    @contextlib.contextmanager
    def _understood(self, content: Any) -> Iterator[None]:
        try:
            yield
        except endpoint_reply.UNFIT:
            raise EngineFailed(f"{self.address} sent JSON that is no chat completion: {_begins(content)}") from None


def first_logprobs(alternatives: Mapping[str, float], labels: Sequence[str]) -> Array:
    """[C] the log-probability of the longest alternative that each label begins with, NaN where there is none. Raises
    `CannotGive` where two labels begin with the same one."""
    found: dict[str, str] = {}
    for label in labels:
        beginnings = [token for token in alternatives if token and label.startswith(token)]
        beginnings = beginnings or [token for token in alternatives if token.strip() and label == token.strip()]
        if not beginnings:
            continue
        token = max(beginnings, key=len)
        other = next((other for other in labels if other != label and other.startswith(token)), None)
        if other is not None:
            raise CannotGive(
                f"{label!r} and {other!r} begin with the same token; set prompt.probabilities to samples, "
                "or use labels that begin differently"
            )
        found[label] = token
    return np.array([alternatives[found[label]] if label in found else np.nan for label in labels])


async def _all(asked: Any) -> list[Any]:
    """Wait for all of them; where one fails, or the waiting is cancelled, so are the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _seeded(asking: Asking, index: int) -> dict[str, int]:
    return {} if asking.seed is None else {"seed": asking.seed + index}


def _one_of(texts: Sequence[str]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"reply": {"type": "string", "enum": list(texts)}},
        "required": ["reply"],
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": schema}}


def most_bytes(asking: Asking) -> int:
    """Return the size of the largest reply that can come."""
    each = BYTES_OF_A_TOKEN
    if asking.logprobs:
        each += BYTES_OF_AN_ALTERNATIVE * (1 + asking.top_logprobs)
    return LEAST_BYTES + asking.n * asking.max_tokens * each


def _begins(content: Any) -> str:
    return printable(json.dumps(content)[:SHOWN_CHARACTERS])
