"""An engine whose replies are written by a test, and models that are configured to be asked through it."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.contract.engine import Asking, EngineFailed, Gives, LabelLogprobs, Piece
from demur.serve.contract.messages import Message
from demur.uncertainty.generation import Generation

HOST = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "none"}
"""A host that nobody starts."""

LABELS = {"binary": ["no", "yes"], "multiclass": ["red", "green", "blue"], "multilabel": ["A01", "A0101", "B01"]}


def settings(task: str | dict[str, Any], **sections: Any) -> dict[str, Any]:
    """A model as it is written: `task` is a kind, or the whole section; other sections may be given as well."""
    told = {"kind": task} if isinstance(task, str) else task
    labels = {"labels": LABELS[told["kind"]]} if told["kind"] in LABELS else {}
    score = "avg_neg_logprob"
    return {
        "task": {**labels, **told},
        "host": HOST,
        "scores": [score],
        "confidence": {"score": score},
        "policy": {"kind": "threshold", "limit": 0.5},
        **sections,
    }


def configured(task: str | dict[str, Any], **sections: Any) -> ModelConfig:
    """The same, read."""
    return ModelConfig.model_validate(settings(task, **sections))


Reply = str | Generation | Exception
Script = Callable[[Sequence[Message], Asking], Reply | Sequence[Reply]]
"""Told what is asked, gives one reply for all of `asking.n`, or one for each."""

ALL: frozenset[Gives] = frozenset({"logprobs", "top_logprobs", "label_logprobs", "constrained"})


def generation(text: str, *, logprob: float = -0.1, **changes: Any) -> Generation:
    """A reply whose tokens are its words, each with the blanks before it, and equally probable."""
    tokens = tuple(changes.pop("tokens", None) or _words(text))
    told = {
        "tokens": tokens,
        "logprobs": np.full(len(tokens), logprob),
        "top_logprobs": tuple(np.log([0.9, 0.05]) for _ in tokens),
        "prompt_tokens": 10,
        "completion_tokens": len(tokens),
    }
    return Generation(text=text, **{**told, **changes})


@dataclass
class ScriptedEngine:
    """Replies as `script` says, and keeps what it was asked. A script that is a text is every reply."""

    script: Script | str = "yes"
    gives: frozenset[Gives] = ALL
    labels: Callable[[Sequence[Message], Sequence[str]], Sequence[float]] | None = None
    """What `label_logprobs` gives; by default every label is as probable as the others."""

    asked: list[tuple[tuple[Message, ...], Asking]] = field(default_factory=list)
    labels_asked: list[tuple[tuple[Message, ...], tuple[str, ...], bool]] = field(default_factory=list)
    remarked: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def calls(self) -> int:
        return len(self.asked) + len(self.labels_asked)

    async def generate(self, messages: Sequence[Message], asking: Asking) -> list[Generation]:
        self.asked.append((tuple(messages), asking))
        said = self.script if isinstance(self.script, str) else self.script(messages, asking)
        replies = list(said) if isinstance(said, list | tuple) else [said] * asking.n
        return [self._told(reply, messages, asking) for reply in replies]

    def remarks(self) -> list[str]:
        return list(self.remarked)

    async def label_logprobs(
        self,
        messages: Sequence[Message],
        labels: Sequence[str],
        *,
        first_token: bool,
        without: frozenset[str] = frozenset(),
    ) -> LabelLogprobs:
        self.labels_asked.append((tuple(messages), tuple(labels), first_token))
        told = self.labels(messages, labels) if self.labels else [-np.log(len(labels))] * len(labels)
        return LabelLogprobs(values=np.array(told, dtype=np.float64), prompt_tokens=10)

    async def stream(self, messages: Sequence[Message], asking: Asking) -> AsyncIterator[Piece]:
        whole = (await self.generate(messages, asking))[0]
        for word in _words(whole.text)[:-1]:
            yield Piece(text=word)
        yield Piece(text=(_words(whole.text) or [""])[-1], whole=whole)

    async def check_health(self) -> None:
        if self.closed:
            raise EngineFailed("it is closed")

    async def close(self) -> None:
        self.closed = True

    def _told(self, reply: Reply, messages: Sequence[Message], asking: Asking) -> Generation:
        """What was not asked for, and what it does not give, is left out."""
        if isinstance(reply, Exception):
            raise reply
        whole = generation(reply) if isinstance(reply, str) else reply
        changes: dict[str, Any] = {}
        if not (asking.logprobs and "logprobs" in self.gives):
            changes["logprobs"] = None
        if not (asking.top_logprobs and "top_logprobs" in self.gives):
            changes["top_logprobs"] = None
        return replace(whole, **changes)


def _words(text: str) -> list[str]:
    words: list[str] = []
    for character in text:
        if words and not (character.isspace() and not words[-1].isspace()):
            words[-1] += character
        else:
            words.append(character)
    return words
