"""A conversation as the tokens that a checkpoint of ours was trained to read."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.contract.engine import CannotGive, EngineFailed
from demur.serve.contract.messages import Message, texts_of, with_texts
from demur.serve.hosts.checkpoint import first_line
from demur.serve.hosts.language.reasoning import OPEN
from demur.serve.hosts.language.tokenizer_inside import inside_of


@dataclass(frozen=True, kw_only=True)
class PromptTokens:
    """What a model reads before it replies."""

    ids: list[int]
    opened: bool
    """Whether the template has begun a trace already."""


PROBE = "some words"


class ChatTemplate:
    """A tokenizer with the template that came with it. Raises `BadCheckpoint` where none came, or where it reads none
    of the `variables`."""

    def __init__(
        self,
        tokenizer: Any,
        checkpoint: str,
        *,
        longest: int | None,
        variables: Mapping[str, Any] | None = None,
        pictures: int = 0,
    ) -> None:
        if not getattr(tokenizer, "chat_template", None):
            raise BadCheckpoint(
                f"{checkpoint} has no chat template; add `chat_template.jinja` to its folder, or serve a model that "
                "was trained on conversations"
            )
        self._variables = dict(variables or {})
        if unread := [name for name in self._variables if name not in str(tokenizer.chat_template)]:
            raise BadCheckpoint(
                f"host.chat_template_kwargs.{unread[0]}: the chat template of {checkpoint} reads no variable of this"
                " name, so it would change nothing; look into the template, or leave this out"
            )
        self._tokenizer = tokenizer
        self._plain = inside_of(tokenizer)
        self._longest = longest
        added = {one.content for one in tokenizer.added_tokens_decoder.values() if one.special}
        special = sorted(added | set(tokenizer.all_special_tokens), key=len, reverse=True)
        self._steering = re.compile("|".join(map(re.escape, special)) if special else r"(?!)")
        self._in_parts = False
        self._in_parts = pictures > 0 and not self._reads_texts()

    def read(self, messages: Sequence[Message]) -> PromptTokens:
        """Return the prompt that asks for a reply. Raises `EngineFailed` where the model cannot read so much.

        What steers the model, such as the end of a turn, does so where the template writes it. In a message it is text
        like any other: whoever wrote the message cannot end it, and speak for another.
        """
        steering = {
            found for message in messages for text in texts_of(message) for found in self._steering.findall(text)
        }
        if steering:
            text, ids = self._read_marked(messages, steering)
        else:
            text = self._rendered(messages)
            ids = self._ids(text)
        if self._longest is not None and len(ids) >= self._longest:
            raise EngineFailed(f"the prompt has {len(ids)} tokens, and prompt and reply may have {self._longest}")
        return PromptTokens(ids=ids, opened=text.rstrip().endswith(OPEN))

    def _read_marked(self, messages: Sequence[Message], steering: set[str]) -> tuple[str, list[int]]:
        """The text and its tokens, with a mark in the place of each thing that steers, until the template is through
        with it."""
        marks = dict(zip(_not_in(messages), sorted(steering), strict=False))
        stand_in = {found: mark for mark, found in marks.items()}
        text = self._rendered(
            [
                with_texts(message, lambda text: self._steering.sub(lambda found: stand_in[found[0]], text))
                for message in messages
            ]
        )
        ids: list[int] = []
        for part in re.split(f"([{''.join(marks)}])", text):
            ids += self._ids(marks[part], split_special_tokens=True) if part in marks else self._ids(part)
        return text, ids

    def _reads_texts(self) -> bool:
        """Whether the template takes a message that is a text, and not only one in parts: some then lose the text."""
        try:
            return PROBE in self._rendered([{"role": "user", "content": PROBE}])
        except EngineFailed:
            return False

    def _rendered(self, messages: Sequence[Message]) -> str:
        try:
            text: str = self._tokenizer.apply_chat_template(
                [_for_template(message, in_parts=self._in_parts) for message in messages],
                add_generation_prompt=True,
                tokenize=False,
                **self._variables,
            )
        except Exception as error:  # templates raise what they like, often to refuse a role
            raise EngineFailed(f"the chat template refuses this conversation: {first_line(error)}") from None
        return text

    def _ids(self, text: str, **how: bool) -> list[int]:
        if not text:
            return []
        if self._plain is not None and not how:
            found: list[int] = self._plain.encode(text, add_special_tokens=False).ids
            return found
        return list(self._tokenizer(text, add_special_tokens=False, **how)["input_ids"])

    def written(self, text: str) -> list[int]:
        """The tokens of a text that is replied."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def first_tokens(self, labels: Sequence[str]) -> list[int]:
        """[C] Raises `CannotGive` where two labels begin with the same token."""
        first = [self.written(label)[0] for label in labels]
        for index, token in enumerate(first):
            if token in first[:index]:
                other = labels[first.index(token)]
                raise CannotGive(
                    f"{other!r} and {labels[index]!r} begin with the same token; set prompt.probabilities to full_label"
                )
        return first


def _not_in(messages: Sequence[Message]) -> Iterator[str]:
    """Characters, of those that mean nothing, that none of the messages has."""
    taken = set().union(*(text for message in messages for text in texts_of(message)))
    return (one for one in map(chr, range(0xE000, 0xF900)) if one not in taken)


def _for_template(message: Message, *, in_parts: bool) -> dict[str, Any]:
    """A message as templates read it: they only mark the place of a picture."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]} if in_parts else dict(message)
    parts = [part if part["type"] == "text" else {"type": "image"} for part in content]
    return {**message, "content": parts}
