"""Two inputs of a binary task before a language model: which of them is more surely positive?"""

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Literal

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.language import LanguageHost
from demur.serve.contract.engine import Asking, Engine
from demur.serve.hosts.language.prompts import TEMPLATES, Prompt, Prompts
from demur.serve.hosts.language.readings import letter_in
from demur.uncertainty.generation import Usage

Side = Literal["A", "B"]
SIDES: tuple[Side, Side] = ("A", "B")

NAMED = re.compile(r"\b(?i:input|text|item)\s+([AB])\b")
"""`Input B is`: a word of the prompt, so that the letter behind it is none of a sentence."""


def judge_fingerprint(model: ModelConfig, weights: str) -> str:
    """SHA-256 over everything that a comparison hangs on: `weights`, the fingerprint of the model's, and the asking.
    Raises `BadPrompt`."""
    assert isinstance(model.host, LanguageHost)
    template = Prompt(model.prompt.pair_template or TEMPLATES / "pair.jinja").source
    asked = [weights, template, model.task.labels, model.host.max_tokens, model.prompt.constrained]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def read_side(reply: str) -> Side | None:
    """Return the side that a reply chose, as letters of options are read, or the only one that it calls an input. None
    where that is not clear: both are named, or "A" may be a word."""
    said = letter_in(reply, len(SIDES))
    if said.index is not None:
        return SIDES[said.index]
    named = set() if said.settled else set(NAMED.findall(reply))
    return next((side for side in SIDES if named == {side}), None)


@dataclass(frozen=True, kw_only=True)
class PairResult:
    """What came of one comparison."""

    side: Side | None
    """Which was found more surely positive; None: no verdict could be read."""

    reply: str
    usage: Usage
    left_out: frozenset[str] = frozenset()
    """As of a `Generation`, and `elsewhere` likewise."""

    elsewhere: str = ""


class PairJudge:
    """Lets a language model compare; takes many comparisons at a time."""

    def __init__(self, model: ModelConfig, engine: Engine) -> None:
        assert isinstance(model.host, LanguageHost)
        self._engine = engine
        self._prompts = Prompts(model)
        only = SIDES if model.prompt.constrained else None
        self._asking = Asking(max_tokens=model.host.max_tokens, only=only)

    async def compare(self, first: str, second: str, *, without: frozenset[str] = frozenset()) -> PairResult:
        """Let the model compare two texts, in this order; `without` is as in `Asking`. Raises `EngineFailed`,
        `CannotGive` or `BadPrompt`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        asking = replace(self._asking, without=without)
        [reply] = await self._engine.generate(self._prompts.pair(first, second), asking)
        usage = Usage(
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            calls=1,
            seconds=loop.time() - began,
        )
        return PairResult(
            side=read_side(reply.text),
            reply=reply.text,
            usage=usage,
            left_out=reply.left_out,
            elsewhere=reply.elsewhere,
        )
