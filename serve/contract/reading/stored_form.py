"""What is stored of an input: pictures without what makes no pixels, and rows of tables by name."""

from collections.abc import Mapping, Sequence
from typing import Any

from demur.serve.contract.inputs import (
    CheckedInput,
    Conversation,
    GivenOutput,
    InputSpec,
    InvalidRequest,
    ModelInput,
    TableRow,
    TooLarge,
)
from demur.serve.contract.messages import picture_in
from demur.serve.contract.pictures.formats import holds_picture, is_picture
from demur.serve.contract.reading.conversations import picture_urls
from demur.serve.contract.reading.pictures import Picture
from demur.serve.contract.reading.tables import by_name
from demur.traffic.dataset import GivenRow

MOST_PICTURES = 64
"""Pictures in one conversation that comes with what a model elsewhere said about it."""


def with_kept(
    values: Sequence[Any],
    read: Sequence[ModelInput | InvalidRequest],
    spec: InputSpec,
    pictures: Sequence[Picture | InvalidRequest] = (),
) -> list[CheckedInput | InvalidRequest]:
    """Return every input that was read with what is stored of it, and errors in their places. `pictures` are those that
    were measured for them."""
    if not pictures and spec.kind == "image" and not any(isinstance(one, InvalidRequest) for one in read):
        return list(map(CheckedInput, read, values))  # type: ignore[arg-type]  # no errors among them
    among = iter(pictures)
    checked: list[CheckedInput | InvalidRequest] = []
    for value, one in zip(values, read, strict=True):
        picture = next(among) if pictures and spec.kind == "image" and is_picture(value) else None
        if isinstance(one, InvalidRequest):
            checked.append(one)
        elif isinstance(picture, Picture):
            checked.append(CheckedInput(one, picture.kept_url))
        elif isinstance(one, Conversation) and spec.pictures and picture_urls(value):
            checked.append(CheckedInput(one, {"messages": list(one.messages)}))
        else:
            checked.append(CheckedInput(one, by_name(value, spec) if isinstance(one, TableRow) else value))
    return checked


def pictures_in(value: Any) -> list[str]:
    """Return the URLs of pictures in an input that came with what a model elsewhere said about it."""
    return [value] if is_picture(value) else picture_urls(value)


def with_kept_beside(
    rows: Sequence[GivenRow], read: Sequence[GivenOutput | InvalidRequest]
) -> list[CheckedInput | InvalidRequest]:
    """Return what models elsewhere said, each with what is stored of the input beside it, and errors in their places.
    No model here reads such an input, so its pictures are not decoded."""
    return [
        one if isinstance(one, InvalidRequest) else _beside(row.input, one) for row, one in zip(rows, read, strict=True)
    ]


def _beside(value: Any, output: GivenOutput) -> CheckedInput | InvalidRequest:
    try:
        return CheckedInput(output, _without_extras(value))
    except InvalidRequest as error:
        return error


def _without_extras(value: Any) -> Any:
    """A picture, or those of a conversation, without what makes no pixels; anything else as it came."""
    if is_picture(value):
        return Picture(value).kept_url if holds_picture(value) else value
    count = len(picture_urls(value))
    if not count:
        return value
    if count > MOST_PICTURES:
        raise TooLarge(f"input.messages: they have {count:,} pictures; at most {MOST_PICTURES} are taken")
    messages = [_message(f"input.messages.{at}", message) for at, message in enumerate(value["messages"])]
    return {**value, "messages": messages}


def _message(place: str, message: Any) -> Any:
    if not isinstance(message, Mapping) or not isinstance(parts := message.get("content"), list):
        return message
    return {**message, "content": [_part(f"{place}.content.{at}", part) for at, part in enumerate(parts)]}


def _part(place: str, part: Any) -> Any:
    url = picture_in(part)
    if not is_picture(url):
        return part
    try:
        return {**part, "image_url": {**part["image_url"], "url": _without_extras(url)}}
    except InvalidRequest as error:
        raise type(error)(f"{place}: {str(error).removeprefix('input: ')}") from None
