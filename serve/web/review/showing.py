"""What an input looks like to people: on its own page, and in a line of the queue."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import orjson

from demur.serve.config.task import LETTERS
from demur.serve.contract.messages import IN_PLACE, picture_in
from demur.serve.contract.reading.picture_url import picture_url

SHORT = 240
"""Characters of a text that is set large."""

LONG = 2_000
"""Characters from which on a text gets a column of its own, in which it scrolls."""

LINE = 90
"""Characters of a text in the queue."""

PICTURE_BEGINS = "data:image/"


class ShownMessage(NamedTuple):
    """One message of a conversation."""

    role: str
    text: str = ""
    """All that is said in it."""

    parts: Sequence[tuple[Literal["text", "picture"], str]] = ()
    """Texts and the URLs of pictures, as they come."""


@dataclass(frozen=True, kw_only=True)
class ShownInput:
    """An input, ready for a template."""

    kind: Literal["picture", "text", "messages", "question", "fields", "gone"]
    text: str = ""
    """The text or the question; of a picture, its URL."""

    messages: Sequence[ShownMessage] = ()

    options: Sequence[tuple[str, str]] = ()
    """Letter and text."""

    fields: Sequence[tuple[str, str]] = field(default=())
    """Name and value."""

    @property
    def size(self) -> Literal["short", "middle", "long"]:
        """How long the whole text is."""
        n = self.characters
        return "short" if n <= SHORT else "middle" if n < LONG else "long"

    @property
    def characters(self) -> int:
        return sum(map(len, self._texts()))

    @property
    def words(self) -> int:
        return sum(len(text.split()) for text in self._texts())

    def _texts(self) -> list[str]:
        if self.kind == "picture":
            return []
        said = [one.text for one in self.messages]
        return [self.text, *said, *(text for _, text in (*self.options, *self.fields))]


def showing(value: Any) -> ShownInput:
    """How an input is shown; None is one that is no longer kept."""
    if value is None:
        return ShownInput(kind="gone")
    if url := picture_url(value):
        return ShownInput(kind="picture", text=url)
    if isinstance(value, str):
        return ShownInput(kind="text", text=value)
    if isinstance(value, dict) and isinstance(messages := value.get("messages"), list):
        return ShownInput(kind="messages", messages=[_message(one) for one in messages if isinstance(one, dict)])
    if isinstance(value, dict) and isinstance(options := value.get("options"), list) and "question" in value:
        lettered = zip(LETTERS, map(_flat, options), strict=False)
        return ShownInput(kind="question", text=_flat(value["question"]), options=list(lettered))
    if isinstance(value, dict):
        return ShownInput(kind="fields", fields=[(str(name), _flat(one)) for name, one in value.items()])
    return ShownInput(kind="text", text=_flat(value))


def glance(value: Any) -> ShownInput:
    """Return an input as a line of the queue shows it: a small picture, or the beginning of a text."""
    if value == "data:image":
        return ShownInput(kind="text", text="a picture")
    shown = showing(value)
    if shown.kind in ("picture", "gone"):
        return shown
    if shown.messages:
        text = shown.messages[-1].text
    elif shown.fields:
        text = ", ".join(f"{name}: {one}" for name, one in shown.fields)
    else:
        text = shown.text
    before, picture, _ = text.partition(PICTURE_BEGINS)  # in the beginning of a long conversation
    text = " ".join((before + IN_PLACE if picture else text).split())
    return ShownInput(kind="text", text=text if len(text) <= LINE else f"{text[:LINE]}…")


def _message(one: dict[str, Any]) -> ShownMessage:
    """A message as it is shown. Of its parts, what is neither a text nor a picture is shown as it is written."""
    role, content = str(one.get("role")), one.get("content")
    if not isinstance(content, list):
        return ShownMessage(role, _flat(content), [("text", _flat(content))])
    parts: list[tuple[Literal["text", "picture"], str]] = []
    for part in content:
        if url := picture_url(picture_in(part)):
            parts.append(("picture", url))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            parts.append(("text", part["text"]))
        else:
            parts.append(("text", _flat(part)))
    return ShownMessage(role, "\n".join(said if kind == "text" else IN_PLACE for kind, said in parts), parts)


def _flat(value: Any) -> str:
    """A value as text, as it would be written."""
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if isinstance(value, list) and value and not any(isinstance(one, list | dict) for one in value):
        return ", ".join(map(_flat, value))
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
