"""The inputs of one request, whatever the model takes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, ModelInput
from demur.serve.contract.pictures.formats import PNG, THESE, is_picture, prefix_of
from demur.serve.contract.reading.any_value import read_any, read_bytes
from demur.serve.contract.reading.conversations import picture_urls, read_conversation
from demur.serve.contract.reading.numbers import read_all_numbers, read_numbers
from demur.serve.contract.reading.pictures import Picture, measured
from demur.serve.contract.reading.tables import read_row
from demur.serve.contract.reading.texts import read_question, read_text, read_text_pair

READERS: dict[str, Callable[[Any, InputSpec, InputLimits], ModelInput]] = {
    "text": lambda value, _, limits: read_text(value, limits),
    "text_pair": lambda value, _, limits: read_text_pair(value, limits),
    "choice": read_question,
    "chat": read_conversation,
    "table": read_row,
    "bytes": lambda value, _, __: read_bytes(value),
    "json": lambda value, _, __: read_any(value),
}
"""By the kind of input. Images are read together: see `decode_all`."""


def read_input(value: Any, spec: InputSpec, limits: InputLimits) -> ModelInput:
    """Return the checked input in the form that the model takes."""
    (read,) = read_inputs([value], spec, limits)
    if isinstance(read, InvalidRequest):
        raise read
    return read


def read_inputs(values: Sequence[Any], spec: InputSpec, limits: InputLimits) -> list[ModelInput | InvalidRequest]:
    """Return every checked input in the form that the model takes, or an error in its place."""
    if not spec.takes_pictures:
        return [_read_or_error(value, spec, limits) for value in values]
    if spec.kind == "image" and values and (pixels := read_all_numbers(values, spec)) is not None:
        return list(pixels)
    return decode_all(values, measure_all(values, spec, limits), spec, limits)


def urls_of(value: Any, spec: InputSpec) -> list[str]:
    """Return the URLs of the pictures in one input, which has not been checked yet."""
    if spec.kind == "chat":
        return picture_urls(value) if spec.pictures else []
    return [value] if spec.kind == "image" and is_picture(value) else []


def measure_all(values: Sequence[Any], spec: InputSpec, limits: InputLimits) -> list[Picture | InvalidRequest]:
    """Return the pictures among the inputs of a model that takes some, not decoded yet, or why one of them is not
    taken."""
    return measured([url for value in values for url in urls_of(value, spec)], spec, limits)


def pixels_kept(pictures: Sequence[Picture], spec: InputSpec) -> int:
    """Return how many pixels of these pictures are kept while their request is open: none of those in a conversation,
    which go to the model as files."""
    return sum(picture.pixels_left(spec) for picture in pictures) if spec.kind == "image" else 0


def decode_all(
    values: Sequence[Any], pictures: Sequence[Picture | InvalidRequest], spec: InputSpec, limits: InputLimits
) -> list[ModelInput | InvalidRequest]:
    """Return every input of a model that takes pictures in the form that it takes, images as pixels, or an error in its
    place. `pictures` are what `measure_all` made of these inputs."""
    among = iter(pictures)
    if spec.kind == "image":
        return [_pixels_or_error(next(among) if is_picture(value) else value, spec) for value in values]
    return [_read_or_error(value, spec, limits, [next(among) for _ in urls_of(value, spec)]) for value in values]


def _pixels_or_error(value: Any, spec: InputSpec) -> ModelInput | InvalidRequest:
    try:
        if isinstance(value, InvalidRequest):
            return value
        if isinstance(value, Picture):
            return value.decoded(spec)
        if isinstance(value, list | np.ndarray):
            return read_numbers(value, spec)
        if isinstance(value, str):
            raise InvalidRequest(f"input: an image given as text must be a URL that starts with {THESE}")
        raise InvalidRequest(
            f"input: this model takes an image, as nested numbers or as a URL like {prefix_of(PNG)}..."
        )
    except InvalidRequest as error:
        return error


def _read_or_error(
    value: Any, spec: InputSpec, limits: InputLimits, pictures: Sequence[Picture | InvalidRequest] = ()
) -> ModelInput | InvalidRequest:
    try:
        if pictures:
            return read_conversation(value, spec, limits, pictures)
        return READERS[spec.kind](value, spec, limits)
    except InvalidRequest as error:
        return error
