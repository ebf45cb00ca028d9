"""Two inputs of a binary task before a language model: which of them is more surely positive?"""

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from jinja2 import Environment, StrictUndefined, Template, TemplateError

from serve.config import BadConfig, ModelConfig
from serve.host_config import ClassifierHost
from serve.language.engine import Asking, Engine, Message
from uncertainty.generation import Usage

Side = Literal["A", "B"]
SIDES: tuple[Side, Side] = ("A", "B")

PAIR_TEMPLATE = """\
{% block system %}
You are told two inputs, A and B. Say for which of them "{{ positive }}" is more surely the right label. Reply with A or
B, and with nothing else.
{% endblock %}

{% block user %}
[A]
{{ first }}

[B]
{{ second }}
{% endblock %}
"""

PROMPTS = Environment(undefined=StrictUndefined, autoescape=False, trim_blocks=True, lstrip_blocks=True)  # noqa: S701


def pair_template(model: ModelConfig) -> str:
    """The text of the template: a block `user` and perhaps one `system`, of `first`, `second`, `positive` and
    `negative`."""
    path = model.prompt.pair_template
    if path is None:
        return PAIR_TEMPLATE
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"prompt.pair_template: {path} cannot be read: {error}") from None


def pair_messages(template: str, first: str, second: str, *, labels: tuple[str, ...]) -> list[Message]:
    """What the model is asked about two texts; `labels` are those of the task, the negative one first."""
    try:
        found = _compiled(template)
        context = {"first": first, "second": second, "negative": labels[0], "positive": labels[1]}
        texts = {role: "".join(found.blocks[role](found.new_context(context))).strip() for role in found.blocks}
    except TemplateError as error:
        raise BadConfig(f"prompt.pair_template: {error}") from None
    if "user" not in texts:
        raise BadConfig("prompt.pair_template: there is no block `user` in it")
    return [{"role": role, "content": texts[role]} for role in ("system", "user") if role in texts]


@lru_cache(maxsize=8)
def _compiled(template: str) -> Template:
    return PROMPTS.from_string(template)


def judge_fingerprint(model: ModelConfig, weights: str) -> str:
    """SHA-256 over everything that a comparison hangs on: `weights`, the fingerprint of the model's, and the asking."""
    assert not isinstance(model.host, ClassifierHost)
    asked = [weights, pair_template(model), model.task.labels, model.host.max_tokens, model.prompt.constrained]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


ALONE = re.compile(r"\W*([AB])\W*", re.IGNORECASE)
NAMED = re.compile(
    r"\b(?:answer|choice|verdict|reply)\b(?:\s+is)?\W{0,6}(?:(?:text|option|item)\W{1,3})?([AB])\b(?!\s+(?:or|and)\b)",
    re.IGNORECASE,
)
MARKED = (
    re.compile(r"[\[(*]([AB])[\])*]"),
    re.compile(r"^\W*([AB])(?:[:.)\]*]|\s*\n|\s+-)"),
    re.compile(r"\b(?:[Tt]ext|[Oo]ption|[Ii]tem|[Ii]nput)\s+([AB])\b"),
)


def read_side(reply: str) -> Side | None:
    """Return the side that a reply chose: a letter alone, the last one named as the answer, or the only one that is
    marked as a letter of ours. None where that is not clear: "A" is also a word."""
    if match := ALONE.fullmatch(reply.strip()):
        return _side(match[1])
    if answers := NAMED.findall(reply):
        return _side(answers[-1])
    for pattern in MARKED:
        found = set(pattern.findall(reply))
        if found:
            return _side(found.pop()) if len(found) == 1 else None
    return None


def _side(letter: str) -> Side:
    return "A" if letter in "Aa" else "B"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What came of one comparison."""

    side: Side | None
    """Which was found more surely positive; None: no verdict could be read."""

    reply: str
    usage: Usage


class PairJudge:
    """Lets a language model compare; takes many comparisons at a time."""

    def __init__(self, model: ModelConfig, engine: Engine) -> None:
        assert not isinstance(model.host, ClassifierHost)
        self._engine = engine
        self._template = pair_template(model)
        self._labels = model.task.labels
        only = SIDES if model.prompt.constrained else None
        self._asking = Asking(max_tokens=model.host.max_tokens, only=only)

    async def compare(self, first: str, second: str) -> Compared:
        """Let the model compare two texts, in this order. Raises `EngineFailed` or `CannotGive`."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        messages = pair_messages(self._template, first, second, labels=self._labels)
        [reply] = await self._engine.generate(messages, self._asking)
        usage = Usage(
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            calls=1,
            seconds=loop.time() - began,
        )
        return Compared(side=read_side(reply.text), reply=reply.text, usage=usage)
