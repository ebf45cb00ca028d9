"""Conversations: messages of texts and, where the model takes them, of pictures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from demur.serve.contract.inputs import Conversation, InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.messages import picture_in, texts_of
from demur.serve.contract.pictures.formats import THESE, is_picture
from demur.serve.contract.reading.pictures import Picture
from demur.serve.contract.reading.texts import kind_of, read_text

ROLES = ("system", "user", "assistant")

AS_IT_IS = InputSpec(kind="image", channels=3, height=2**30, width=2**30)
"""What a picture is decoded for: a language model shrinks it by itself."""

NO_PICTURES = (
    "this model takes texts alone; send the request without pictures, or let the operator of the service set"
    " `host.pictures` if the model takes them"
)
EMBEDDED = f"send the picture itself, in base64 in a URL that begins with {THESE}; nothing is fetched from an address"
KINDS_OF_PARTS = "a part is a text ({`type`: text, `text`}) or a picture ({`type`: image_url, `image_url`: {`url`}})"


def picture_urls(value: Any) -> list[str]:
    """Return the URLs of the pictures in an input that has not been checked yet, in order."""
    messages = value.get("messages") if isinstance(value, Mapping) else None
    return [
        url
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, Mapping) and isinstance(parts := message.get("content"), list)
        for part in parts
        if is_picture(url := picture_in(part))
    ]


def read_conversation(
    value: Any, spec: InputSpec, limits: InputLimits, pictures: Sequence[Picture | InvalidRequest] = ()
) -> Conversation:
    """Return messages that end with one for the model to reply to; a text is such a message.

    `pictures` are those of `picture_urls(value)`, measured, or why one of them is not taken. Each of them is decoded,
    to see that it can be, and passed on without what makes no pixels.
    """
    if isinstance(value, str):
        return Conversation(messages=({"role": "user", "content": read_text(value, limits)},))
    if not isinstance(value, dict) or set(value) != {"messages"} or not isinstance(value["messages"], list):
        raise InvalidRequest('input: this model takes a text, or {"messages": [{"role": ..., "content": a text}, ...]}')
    if not value["messages"]:
        raise InvalidRequest("input.messages: there is no message")
    if len(pictures) > spec.pictures:  # before any of them is decoded
        raise TooLarge(
            f"input.messages: they have {len(pictures)} pictures; at most {spec.pictures} are taken (host.pictures)"
        )
    messages: list[dict[str, Any]] = []
    characters, measured = 0, iter(pictures)
    for at, message in enumerate(value["messages"]):
        place = f"input.messages.{at}"
        if not isinstance(message, dict) or set(message) != {"role", "content"} or message["role"] not in ROLES:
            raise InvalidRequest(f"{place}: a message is a `role` ({', '.join(ROLES)}) and a `content`, a text")
        content = message["content"]
        if isinstance(content, list):
            content = _read_parts(f"{place}.content", content, message["role"], spec, measured)
        elif not isinstance(content, str):
            raise InvalidRequest(f"{place}.content: only texts are taken, not {kind_of(content)}")
        messages.append({"role": message["role"], "content": content})
        characters += sum(map(len, texts_of(messages[-1])))
    if characters > limits.text_characters:
        raise TooLarge(
            f"input.messages: they have {characters:,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    if messages[-1]["role"] == "assistant":
        raise InvalidRequest("input.messages: the last one is the model's own; end with what it is to reply to")
    return Conversation(messages=tuple(messages))


def _read_parts(
    place: str, parts: list[Any], role: str, spec: InputSpec, measured: Iterator[Picture | InvalidRequest]
) -> str | list[dict[str, Any]]:
    """A text where all parts are texts, else the parts, with nothing in them but what is known."""
    if not parts:
        raise InvalidRequest(f"{place}: there is no part; {KINDS_OF_PARTS}")
    read: list[dict[str, Any]] = []
    for at, part in enumerate(parts):
        here = f"{place}.{at}"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and set(part) == {"type", "text"} and isinstance(part["text"], str):
            read.append({"type": "text", "text": part["text"]})
        elif kind != "image_url":
            raise InvalidRequest(f"{here}: {KINDS_OF_PARTS}")
        elif not spec.pictures:
            raise InvalidRequest(f"{here}: {NO_PICTURES}")
        elif role != "user":
            raise InvalidRequest(f"{here}: pictures are taken in messages of the user alone, not of the role {role}")
        else:
            read.append({"type": "image_url", "image_url": {"url": _read_picture(here, part, measured)}})
    if all(part["type"] == "text" for part in read):
        return "\n".join(part["text"] for part in read)
    return read


def _read_picture(place: str, part: dict[str, Any], measured: Iterator[Picture | InvalidRequest]) -> str:
    inside = part.get("image_url")
    if not isinstance(inside, dict) or set(part) != {"type", "image_url"} or not {"url"} <= set(inside) <= TAKEN:
        raise InvalidRequest(f"{place}: {KINDS_OF_PARTS}")
    if inside.get("detail", "auto") != "auto":
        raise InvalidRequest(
            f"{place}.image_url.detail: only `auto` is taken, since decisions are fitted for pictures as they are"
            " configured; leave it out"
        )
    url = inside["url"]
    if not is_picture(url):
        raise InvalidRequest(f"{place}.image_url.url: {EMBEDDED}")
    picture = next(measured)
    try:
        if isinstance(picture, InvalidRequest):
            raise picture
        picture.decoded(AS_IT_IS)
    except InvalidRequest as error:
        raise type(error)(f"{place}: {str(error).removeprefix('input: ')}") from None
    return picture.kept_url


TAKEN = {"url", "detail"}
