"""A language model behind an endpoint that speaks OpenAI's chat completions, in so far as endpoints do.

What an endpoint does not give is missing, and never made up: tokens and log-probabilities are None where a reply brings
none, and where its tokens cannot be laid over its text. Those of a reply that had to be one of some texts are None as
well, since nobody says whether they are the model's own or what was left of them.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from serve.config.hosts import OpenAIHost
from serve.hosts.checkpoint import first_line
from serve.language.engine import Asking, CannotGive, EngineFailed, Gives, Message, Piece
from serve.language.reasoning import Parts, answer_start, split
from uncertainty.checks import Array
from uncertainty.generation import Generation

try:
    import openai
except ImportError:
    raise CannotGive("a host of kind openai needs the openai package: pip install 'demur[openai]'") from None

MOST_ALTERNATIVES = 20
"""That OpenAI's protocol lets anybody ask for."""

NEWER_NAME = "max_completion_tokens"


class OpenAIEngine:
    """Asks no more than `host.concurrency` at a time. A request that fails in passing (429, 5xx, no connection) is sent
    again up to `host.retries` times, after a time that grows, with jitter, or that the endpoint names."""

    def __init__(self, host: OpenAIHost) -> None:
        self._host = host
        self._client = openai.AsyncOpenAI(
            base_url=host.base_url,
            api_key=_key(host),
            timeout=host.timeout_seconds,
            max_retries=host.retries,
        )
        self._slots = asyncio.Semaphore(host.concurrency)
        self._takes_n = True
        self._limit_name = "max_tokens"
        self._is_vllm: bool | None = None

    @classmethod
    async def started(cls, host: OpenAIHost) -> "OpenAIEngine":
        """Nothing is asked yet: an endpoint that is away for a moment keeps no service from starting. Raises
        `CannotGive` where the key is missing."""
        return cls(host)

    @property
    def gives(self) -> frozenset[Gives]:
        if not self._host.gives_logprobs:
            return frozenset({"constrained"})
        return frozenset({"logprobs", "top_logprobs", "label_logprobs", "constrained"})

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        """`asking.n` are asked for at once; an endpoint that gives fewer is asked for the rest one by one."""
        body = await self._body(messages, asking)
        replies: list[Generation] = []
        if asking.n > 1 and self._takes_n:
            with contextlib.suppress(_Refused):  # if it was not for their number, it is refused again
                replies = self._read(await self._ask({**body, "n": asking.n}), asking)[: asking.n]
        missing = range(len(replies), asking.n)
        singles = await _all(self._ask({**body, **_seeded(asking, index)}) for index in missing)
        if asking.n > 1 and singles:
            self._takes_n = False
        return [*replies, *(self._read(single, asking)[0] for single in singles)]

    async def label_logprobs(
        self, messages: Sequence[Message], labels: Sequence[str], *, first_token: bool
    ) -> tuple[Array, int]:
        """NaN for a label whose first token is not among the alternatives that the endpoint tells."""
        if not first_token:
            raise CannotGive(
                f"{self._host.base_url} cannot score whole labels; set prompt.probabilities to first_token or samples"
            )
        if not self._host.gives_logprobs:
            raise CannotGive(f"{self._host.base_url} gives no log-probabilities; set prompt.probabilities to samples")
        asking = Asking(max_tokens=1, temperature=1.0, seed=0, logprobs=True, top_logprobs=MOST_ALTERNATIVES)
        completion = await self._ask(await self._body(messages, asking))
        content = getattr(completion.choices[0].logprobs, "content", None) if completion.choices else None
        alternatives = {top.token: top.logprob for top in content[0].top_logprobs} if content else {}
        return first_logprobs(alternatives, labels), completion.usage.prompt_tokens if completion.usage else 0

    async def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        body = await self._body(messages, asking)
        body |= {"stream": True, "stream_options": {"include_usage": True}}
        heard = _Heard()
        parts = Parts()
        with self._clear_errors():
            async with self._slots:
                async with asyncio.timeout(self._host.timeout_seconds):
                    chunks = await self._created(body)
                try:
                    async for chunk in chunks:
                        text, reasoning = heard.add(chunk)
                        if asking.only is not None:  # it may come within JSON
                            continue
                        more, answer = parts.add(text)
                        if reasoning or more or answer:
                            yield Piece(text=answer, reasoning=reasoning + more)
                finally:
                    await chunks.close()
        if heard.finish_reason is None:
            raise EngineFailed(f"{self._host.base_url} broke off in the middle of a reply")
        whole = self._generation(heard.message(), heard.logprobs, heard.finish_reason, asking, heard.usage, share=None)
        reasoning, answer = parts.end(None if heard.reasoning else whole.reasoning, whole.text)
        yield Piece(text=answer, reasoning=reasoning, whole=whole)

    async def check_health(self) -> None:
        """Nothing: an endpoint that is away does not come back because this process is started anew."""

    async def close(self) -> None:
        await self._client.close()

    async def _body(self, messages: Sequence[Message], asking: Asking) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._host.model,
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
                raise CannotGive(f"{self._host.base_url} tells at most {MOST_ALTERNATIVES} alternatives of a token")
            body["logprobs"] = True
            if asking.top_logprobs:
                body["top_logprobs"] = asking.top_logprobs
        extra = dict(self._host.extra_body)
        if asking.only is not None:
            if await self._speaks_vllm():
                extra["structured_outputs"] = {"choice": list(asking.only)}
            else:
                body["response_format"] = _one_of(asking.only)
        if extra:
            body["extra_body"] = extra
        return body

    async def _speaks_vllm(self) -> bool:
        """Whether it is a vLLM server, which takes a list of texts as it is; others take a schema."""
        if self._is_vllm is None:
            try:
                async with self._slots:
                    listed = await self._client.models.list()
                self._is_vllm = any(model.owned_by == "vllm" for model in listed.data)
            except openai.APIStatusError:
                self._is_vllm = False
            except openai.APIError:
                return False
        return self._is_vllm

    async def _ask(self, body: dict[str, Any]) -> Any:
        with self._clear_errors():
            async with asyncio.timeout(self._host.timeout_seconds), self._slots:  # retries included
                return await self._created(body)

    async def _created(self, body: dict[str, Any]) -> Any:
        """Some models of OpenAI's take the limit under a newer name only, which other endpoints do not know."""
        body = dict(body)
        limit = body.pop("max_tokens")
        try:
            return await self._client.chat.completions.create(**body, **{self._limit_name: limit})
        except openai.BadRequestError as error:
            if self._limit_name == NEWER_NAME or NEWER_NAME not in str(error):
                raise
            self._limit_name = NEWER_NAME
            return await self._client.chat.completions.create(**body, **{self._limit_name: limit})

    @contextlib.contextmanager
    def _clear_errors(self) -> Iterator[None]:
        where = self._host.base_url
        try:
            yield
        except (openai.APITimeoutError, TimeoutError):
            raise EngineFailed(f"{where} gave no reply within {self._host.timeout_seconds:g} s") from None
        except openai.APIConnectionError as error:
            raise EngineFailed(
                f"{where} cannot be reached: {self._told(first_line(error.__cause__ or error))}"
            ) from None
        except (openai.AuthenticationError, openai.PermissionDeniedError):
            raise EngineFailed(f"{where} refused the key in {self._host.api_key_env}") from None
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise _Refused(f"{where} refused the request: {self._told(_said(error))}") from None
        except openai.APIStatusError as error:
            raise EngineFailed(f"{where} answered {error.status_code}: {self._told(_said(error))}") from None
        except (openai.APIError, ValueError) as error:  # an error in a stream; what is no JSON
            raise EngineFailed(f"{where} gave a reply that cannot be read: {self._told(first_line(error))}") from None

    def _told(self, said: str) -> str:
        """What an endpoint said, without our key, which some repeat."""
        key = os.environ.get(self._host.api_key_env)
        return said.replace(key, "(the key)") if key else said

    def _read(self, completion: Any, asking: Asking) -> list[Generation]:
        choices = getattr(completion, "choices", None)
        if not choices:
            raise EngineFailed(f"{self._host.base_url} gave a reply without choices")
        return [
            self._generation(
                {
                    "content": _sound(choice.message.content),
                    "reasoning": _reasoning(choice.message),
                    "refusal": _sound(getattr(choice.message, "refusal", None)),
                },
                getattr(choice.logprobs, "content", None),
                choice.finish_reason,
                asking,
                completion.usage,
                share=(index, len(choices)),
            )
            for index, choice in enumerate(choices)
        ]

    def _generation(
        self,
        message: dict[str, str | None],
        logprobs: Sequence[Any] | None,
        finish_reason: str | None,
        asking: Asking,
        usage: Any,
        *,
        share: tuple[int, int] | None,
    ) -> Generation:
        if finish_reason == "content_filter":
            raise EngineFailed(f"{self._host.base_url} withheld the reply (content_filter)")
        content = message["content"] or message.get("refusal") or ""
        reasoning = message["reasoning"]
        if asking.only is not None:
            content = self._chosen(content, asking.only)
        answer_at = 0
        if reasoning is None:
            parts = split(content, opened=None)
            reasoning, answer_at = parts.reasoning, parts.answer_at
        laid = _laid_over(content, answer_at, logprobs) if logprobs and asking.only is None else None
        total = usage.completion_tokens if usage else (len(logprobs) if logprobs else 0)
        index, count = share or (0, 1)
        return Generation(
            text=content[answer_at:],
            reasoning=reasoning,
            tokens=laid.tokens if laid else (),
            logprobs=laid.logprobs if laid else None,
            top_logprobs=laid.top_logprobs if laid and asking.top_logprobs else None,
            answer_start=laid.answer_start if laid else 0,
            finish_reason="length" if finish_reason == "length" else "stop",
            prompt_tokens=usage.prompt_tokens if usage else 0,
            completion_tokens=total // count + (index < total % count),
        )

    def _chosen(self, content: str, only: Sequence[str]) -> str:
        """Take a text out of the JSON that it came in. Raises `CannotGive` where it is none of those allowed."""
        text = content.strip()
        if text not in only:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["reply"]
        if text not in only:
            raise CannotGive(
                f"{self._host.base_url} does not keep to the texts that a reply must be one of; "
                "set prompt.constrained to false"
            )
        return text


class _Refused(EngineFailed):
    """The endpoint cannot do what a request asks for."""


class _Laid:
    """Tokens of a reply, in the places where its text has them."""

    def __init__(self, entries: Sequence[Any], texts: Sequence[str], start: int) -> None:
        self.tokens = tuple(texts)
        self.logprobs = np.array([entry.logprob for entry in entries], dtype=np.float64)
        self.top_logprobs = tuple(
            np.array(sorted((top.logprob for top in entry.top_logprobs or ()), reverse=True)) for entry in entries
        )
        self.answer_start = start


def _laid_over(content: str, answer_at: int, entries: Sequence[Any]) -> _Laid | None:
    """Find the answer at the end of the tokens. What follows it is the mark that ended the reply; what stands before it
    is the trace, if the endpoint counts that among the tokens. None where the answer is not to be found."""
    texts = _texts(entries)
    joined, answer = "".join(texts), content[answer_at:]
    behind = joined[::-1].find(answer[::-1])  # in linear time, which `rfind` does not promise
    if behind < 0:
        return None
    place = len(joined) - behind - len(answer)
    end, kept = 0, 0
    for kept, text in enumerate(texts, start=1):
        if end >= place + len(answer):
            kept -= 1
            break
        end += len(text)
    start = answer_start(texts[:kept], place) if answer else kept
    return _Laid(entries[:kept], texts[:kept], start)


def _texts(entries: Sequence[Any]) -> list[str]:
    """[L] texts of tokens. A character whose bytes are several tokens is the text of the last of these."""
    texts, pending = [], b""
    for entry in entries:
        known = getattr(entry, "bytes", None)
        if known is None:
            texts.append(entry.token)
            continue
        pending += bytes(known)
        try:
            texts.append(pending.decode())
            pending = b""
        except UnicodeDecodeError:
            texts.append("")
    if pending and texts:
        texts[-1] += pending.decode(errors="replace")
    return texts


class _Heard:
    """What has come of a stream."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self.logprobs: list[Any] = []
        self.finish_reason: str | None = None
        self.usage: Any = None

    def add(self, chunk: Any) -> tuple[str, str]:
        """Return what is new of the text, and of the trace where the endpoint keeps it apart."""
        self.usage = getattr(chunk, "usage", None) or self.usage
        if not chunk.choices:
            return "", ""
        choice = chunk.choices[0]
        self.finish_reason = choice.finish_reason or self.finish_reason
        self.logprobs += getattr(choice.logprobs, "content", None) or []
        text, reasoning = _sound(choice.delta.content) or "", _reasoning(choice.delta) or ""
        self._text.append(text)
        self._reasoning.append(reasoning)
        return text, reasoning

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def message(self) -> dict[str, str | None]:
        return {"content": "".join(self._text), "reasoning": self.reasoning or None}


def first_logprobs(alternatives: dict[str, float], labels: Sequence[str]) -> Array:
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


def _reasoning(message: Any) -> str | None:
    """The name differs between servers."""
    for name in ("reasoning", "reasoning_content"):
        value = getattr(message, name, None)
        if isinstance(value, str) and value:
            return _sound(value)
    return None


def _sound(text: str | None) -> str | None:
    """Without halves of surrogate pairs, which JSON can spell and nobody else can write."""
    return text and text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _said(error: "openai.APIStatusError") -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return first_line(ValueError(body.get("message") or error.message))[:300]


def _key(host: OpenAIHost) -> str:
    """The key that the environment holds; an endpoint on this machine may do without."""
    key = os.environ.get(host.api_key_env)
    if key:
        return key
    if _is_here(urlsplit(host.base_url).hostname or ""):
        return "none"
    raise CannotGive(f"{host.base_url} needs a key, and the environment has no {host.api_key_env}")


def _is_here(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
