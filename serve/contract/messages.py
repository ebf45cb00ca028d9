"""Messages of a conversation: each is a text, or parts of which some are pictures, as OpenAI's protocol writes them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Message = Mapping[str, Any]
"""`role` (system, user or assistant) and `content`: a text, or a list of parts. A part is `{"type": "text", "text": a
text}` or `{"type": "image_url", "image_url": {"url": a data: URL}}`."""

IN_PLACE = "[a picture]"
"""Stands for a picture where only texts are read."""


def picture_in(part: Any) -> Any:
    """Return the URL of a part that says it is a picture; None for any other, and where no URL stands in it."""
    if not isinstance(part, Mapping) or part.get("type") != "image_url":
        return None
    inside = part.get("image_url")
    return inside.get("url") if isinstance(inside, Mapping) else None


def pictures_of(messages: Sequence[Message]) -> list[str]:
    """Return the URLs of all pictures, in order."""
    return [
        url
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if (url := picture_in(part)) is not None
    ]


def texts_of(message: Message) -> list[str]:
    """Return the texts of a message, without its pictures."""
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]


def text_of(message: Message) -> str:
    """Return what a message says, its parts on lines of their own, with a few words in the place of a picture."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] if part["type"] == "text" else IN_PLACE for part in content)


def with_texts(message: Message, change: Callable[[str], str]) -> dict[str, Any]:
    """Return a message with each of its texts changed."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": change(content)}
    parts = [{**part, "text": change(part["text"])} if part["type"] == "text" else part for part in content]
    return {**message, "content": parts}


def with_pictures(messages: Sequence[Message], urls: Sequence[str]) -> tuple[Message, ...]:
    """Return messages whose last one, a text, begins with pictures."""
    if not urls:
        return tuple(messages)
    *before, last = messages
    pictures = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return (*before, {**last, "content": [*pictures, {"type": "text", "text": last["content"]}]})
