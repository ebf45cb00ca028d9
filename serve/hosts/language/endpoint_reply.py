"""Chat completions as an endpoint sends them, whole or in chunks, read into replies.

What an endpoint does not give is missing, and never made up: tokens and log-probabilities are None where a reply brings
none, and where its tokens cannot be laid over its text. Those of a reply that had to be one of some texts are None as
well, since nobody says whether they are the model's own or what was left of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from demur.serve.hosts.language.reasoning import answer_start

LONGEST_PENDING = 256
"""Bytes that wait for the rest of a character; more than so many are none."""

MOST_TOKENS = 10**9
"""More than this nobody counts: a number above it is none of tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplyToken:
    """One token of a reply, and the most probable tokens in its place."""

    text: str
    logprob: float
    data: bytes | None
    """What it is in bytes, where the endpoint tells them: a character may be several tokens."""

    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class EndpointChoice:
    """One of the replies to a request."""

    content: str
    reasoning: str | None
    tokens: Sequence[ReplyToken]
    finish_reason: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """How many were read and written, 0 where the endpoint does not say."""

    prompt: int = 0
    completion: int = 0


def choices_of(content: Any) -> list[EndpointChoice]:
    """The replies in a completion; none where it has none. Raises one of `UNFIT` for what is no completion."""
    found = []
    for choice in content["choices"] or ():
        message = choice["message"]
        found.append(
            EndpointChoice(
                content=_text(message.get("content")) or _text(message.get("refusal")) or "",
                reasoning=_reasoning(message),
                tokens=_tokens(choice.get("logprobs")),
                finish_reason=choice.get("finish_reason"),
            )
        )
    return found


def tokens_of(content: Mapping[str, Any]) -> Tokens:
    """What a completion, or a chunk, says of its tokens."""
    usage = content.get("usage")
    if not isinstance(usage, dict):
        return Tokens()
    return Tokens(prompt=_count(usage.get("prompt_tokens")), completion=_count(usage.get("completion_tokens")))


UNFIT = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""What reading raises where JSON has another shape than it should."""


@dataclass
class PartialReply:
    """What has come of a stream."""

    texts: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    tokens: list[ReplyToken] = field(default_factory=list)
    finish_reason: str | None = None
    used: Tokens = field(default_factory=Tokens)

    def add(self, chunk: Any) -> tuple[str, str]:
        """Return what is new of the text, and of the trace where the endpoint keeps it apart. Raises one of
        `UNFIT`."""
        if chunk.get("usage"):
            self.used = tokens_of(chunk)
        if not chunk.get("choices"):
            return "", ""
        choice = chunk["choices"][0]
        delta = choice.get("delta") or {}
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.tokens += _tokens(choice.get("logprobs"))
        text, reasoning = _text(delta.get("content")) or "", _reasoning(delta) or ""
        self.texts.append(text)
        self.traces.append(reasoning)
        return text, reasoning

    @property
    def whole(self) -> EndpointChoice:
        return EndpointChoice(
            content="".join(self.texts),
            reasoning="".join(self.traces) or None,
            tokens=self.tokens,
            finish_reason=self.finish_reason,
        )


@dataclass(frozen=True, kw_only=True)
class Laid:
    """Tokens of a reply, in the places where its text has them."""

    tokens: tuple[str, ...]
    logprobs: np.ndarray
    top_logprobs: tuple[np.ndarray, ...]
    answer_start: int


def laid_over(content: str, answer_at: int, tokens: Sequence[ReplyToken]) -> Laid | None:
    """Find the answer at the end of the tokens. What follows it is the mark that ended the reply; what stands before it
    is the trace, if the endpoint counts that among the tokens. None where the answer is not to be found."""
    texts = _texts(tokens)
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
    return Laid(
        tokens=tuple(texts[:kept]),
        logprobs=np.array([token.logprob for token in tokens[:kept]], dtype=np.float64),
        top_logprobs=tuple(
            np.array(sorted((logprob for _, logprob in token.top), reverse=True)) for token in tokens[:kept]
        ),
        answer_start=answer_start(texts[:kept], place) if answer else kept,
    )


def _texts(tokens: Sequence[ReplyToken]) -> list[str]:
    """[L] texts of tokens. A character whose bytes are several tokens is the text of the last of these."""
    texts, pending = [], b""
    for token in tokens:
        if token.data is None:
            texts.append(token.text)
            continue
        pending += token.data
        try:
            texts.append(pending.decode(errors="replace" if len(pending) > LONGEST_PENDING else "strict"))
            pending = b""
        except UnicodeDecodeError:
            texts.append("")
    if pending and texts:
        texts[-1] += pending.decode(errors="replace")
    return texts


def _tokens(logprobs: Any) -> list[ReplyToken]:
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    return [
        ReplyToken(
            text=_text(entry["token"]) or "",
            logprob=float(entry["logprob"]),
            data=None if entry.get("bytes") is None else bytes(entry["bytes"]),
            top=tuple((_text(top["token"]) or "", float(top["logprob"])) for top in entry.get("top_logprobs") or ()),
        )
        for entry in entries or ()
    ]


def _reasoning(message: Mapping[str, Any]) -> str | None:
    """The name differs between servers."""
    for name in ("reasoning", "reasoning_content"):
        if isinstance(value := message.get(name), str) and value:
            return _text(value)
    return None


def _text(value: Any) -> str | None:
    """Without halves of surrogate pairs, which JSON can spell and nobody else can write."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value <= MOST_TOKENS else 0
