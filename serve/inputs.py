"""From the `input` of a request to what a model takes: pixels in [0, 1], or text. Whatever does not fit is refused."""

import base64
import binascii
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

PNG_PREFIX = "data:image/png;base64,"
PNG_BEGINS = b"\x89PNG"

HEAD_OF_PNG = 32
"""Characters in base64 in which the width and the height stand."""

Pixels = NDArray[np.float32]
"""[channels, height, width], each value in [0, 1]."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its options, in the order of whoever asks."""

    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Messages with a `role` and a `content`; the last one is to be replied to."""

    messages: tuple[dict[str, str], ...]


ModelInput = str | Pixels | Question | Conversation


class InvalidRequest(ValueError):
    """The request cannot be served as it is. The message says which part, and what would be right."""


class TooLarge(InvalidRequest):
    """The request is larger than `limits` in the configuration allows."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What a model takes. The size of an image is that of its processed form; PNGs of other sizes are resized."""

    kind: Literal["image", "text", "choice", "chat"]
    channels: int = 0
    height: int = 0
    width: int = 0
    options: int = 0
    """How many options a question may have."""


@dataclass(frozen=True, kw_only=True)
class InputLimits:
    text_characters: int
    image_pixels: int


class PictureBudget:
    """How many pixels the PNGs of one request may bring: a small file may unfold into a very large picture, and a batch
    may hold a thousand of them."""

    def __init__(self, limits: InputLimits) -> None:
        self._most = limits.image_pixels
        self._used = 0

    def check_left(self, value: Any) -> None:
        """Count an input, as far as it is a PNG; raise `TooLarge` where the ones before have used everything up."""
        if not isinstance(value, str) or not value.startswith(PNG_PREFIX):
            return
        try:
            head = base64.b64decode(value[len(PNG_PREFIX) : len(PNG_PREFIX) + HEAD_OF_PNG])
        except binascii.Error:
            return  # which is told when it is read
        used, here = self._used, int.from_bytes(head[16:20], "big") * int.from_bytes(head[20:24], "big")
        self._used += here
        if used and self._used > self._most:  # one alone is measured when it is read
            raise TooLarge(
                f"input: the images of one request have more than {self._most:,} pixels together, which is what is"
                " taken (limits.image_pixels)"
            )


def read_input(value: Any, spec: InputSpec, limits: InputLimits) -> ModelInput:
    """Return the checked input in the form that the model takes."""
    if spec.kind == "text":
        return _text(value, limits)
    if spec.kind == "choice":
        return _question(value, spec, limits)
    if spec.kind == "chat":
        return _conversation(value, limits)
    if isinstance(value, str):
        return _png(value, spec, limits)
    if isinstance(value, list | np.ndarray):
        return _nested_numbers(value, spec)
    raise InvalidRequest(f"input: this model takes an image, as nested numbers or as a {PNG_PREFIX}... URL")


def read_inputs(values: Sequence[Any], spec: InputSpec, limits: InputLimits) -> list[ModelInput | InvalidRequest]:
    """The same for several inputs, which is quicker than one by one; what does not fit is an error in its place."""
    if spec.kind == "image" and values and (pixels := _all_pixels(values, spec)) is not None:
        return list(pixels)
    budget = PictureBudget(limits) if spec.kind == "image" else None
    return [_input_or_error(value, spec, limits, budget) for value in values]


def _input_or_error(
    value: Any, spec: InputSpec, limits: InputLimits, budget: PictureBudget | None
) -> ModelInput | InvalidRequest:
    try:
        if budget is not None:
            budget.check_left(value)
        return read_input(value, spec, limits)
    except InvalidRequest as error:
        return error


def _all_pixels(values: Sequence[Any], spec: InputSpec) -> Pixels | None:
    """[n, channels, height, width] where all are nested numbers of the right shape, and pixels; None where not."""
    shape = len(values), *_shape(spec)
    numbers: list[Any] = list(values)
    for length in shape[1:]:  # flat, because a nested list is slow to read
        if not all(type(part) is list and len(part) == length for part in numbers):
            return None
        numbers = list(chain.from_iterable(numbers))
    if not set(map(type, numbers)) <= {float, int}:
        return None
    try:
        array = np.array(numbers, dtype=np.float64)
    except OverflowError:
        return None
    if not (array.min() >= 0 and array.max() <= 1):  # nor where there is a NaN
        return None
    pixels = array.astype(np.float32).reshape(shape)
    return pixels[:, np.newaxis] if spec.channels == 1 else np.moveaxis(pixels, -1, 1)


def _shape(spec: InputSpec) -> tuple[int, ...]:
    """Of the nested numbers of one image."""
    return (spec.height, spec.width) if spec.channels == 1 else (spec.height, spec.width, spec.channels)


def picture(value: Any) -> bytes | None:
    """Return an input that is an image as PNG, to be looked at; None if it is something else."""
    if isinstance(value, str):
        try:
            image = base64.b64decode(value.removeprefix(PNG_PREFIX)) if value.startswith(PNG_PREFIX) else b""
        except ValueError:
            return None
        return image if image.startswith(PNG_BEGINS) else None  # else it is a text that only begins like an image
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.dtype.kind not in "fiu" or array.ndim not in (2, 3):
        return None
    buffer = io.BytesIO()
    Image.fromarray(np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8).squeeze()).save(buffer, "PNG")
    return buffer.getvalue()


def _text(value: Any, limits: InputLimits, *, place: str = "input", what: str = "this model takes a text") -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{place}: {what}, not {_kind_of(value)}")
    if not value.strip():
        raise InvalidRequest(f"{place}: the text is empty")
    if len(value) > limits.text_characters:
        raise TooLarge(
            f"{place}: the text has {len(value):,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    return value


def _question(value: Any, spec: InputSpec, limits: InputLimits) -> Question:
    if not isinstance(value, dict) or set(value) != {"question", "options"} or not isinstance(value["options"], list):
        raise InvalidRequest('input: this model takes {"question": a text, "options": [texts]}')
    question = _text(value["question"], limits, place="input.question", what="a question is a text")
    options = [
        _text(option, limits, place=f"input.options.{at}", what="an option is a text")
        for at, option in enumerate(value["options"][: spec.options + 1])
    ]
    if not 2 <= len(options) <= spec.options:
        raise InvalidRequest(f"input.options: this model takes 2 to {spec.options} options (task.labels)")
    if len({option.strip() for option in options}) < len(options):
        raise InvalidRequest("input.options: two of them are the same")
    return Question(question=question, options=tuple(options))


ROLES = ("system", "user", "assistant")


def _conversation(value: Any, limits: InputLimits) -> Conversation:
    if isinstance(value, str):
        return Conversation(messages=({"role": "user", "content": _text(value, limits)},))
    if not isinstance(value, dict) or set(value) != {"messages"} or not isinstance(value["messages"], list):
        raise InvalidRequest('input: this model takes a text, or {"messages": [{"role": ..., "content": a text}, ...]}')
    if not value["messages"]:
        raise InvalidRequest("input.messages: there is no message")
    messages, characters = [], 0
    for at, message in enumerate(value["messages"]):
        place = f"input.messages.{at}"
        if not isinstance(message, dict) or set(message) != {"role", "content"} or message["role"] not in ROLES:
            raise InvalidRequest(f"{place}: a message is a `role` ({', '.join(ROLES)}) and a `content`, a text")
        content = message["content"]
        if not isinstance(content, str):
            raise InvalidRequest(f"{place}.content: only texts are taken, not {_kind_of(content)}")
        characters += len(content)
        messages.append({"role": message["role"], "content": content})
    if characters > limits.text_characters:
        raise TooLarge(
            f"input.messages: they have {characters:,} characters; at most {limits.text_characters:,} are taken"
            " (limits.text_characters)"
        )
    if messages[-1]["role"] == "assistant":
        raise InvalidRequest("input.messages: the last one is the model's own; end with what it is to reply to")
    return Conversation(messages=tuple(messages))


def _nested_numbers(value: list[Any] | NDArray[Any], spec: InputSpec) -> Pixels:
    shape = _shape(spec)
    wanted = " x ".join(str(side) for side in shape)
    try:
        array = np.asarray(value)
    except ValueError:
        raise InvalidRequest(f"input: the rows differ in length; this model takes {wanted} numbers") from None
    if array.size and array.dtype.kind not in "fiu":
        raise InvalidRequest(f"input: only numbers are taken, {wanted} of them")
    if array.shape != shape:
        here = " x ".join(str(side) for side in array.shape)
        raise InvalidRequest(f"input: the shape is {here}; this model takes {wanted}")
    if not np.isfinite(array).all():
        raise InvalidRequest("input: a pixel is NaN or infinite")
    if array.min() < 0 or array.max() > 1:
        raise InvalidRequest(
            f"input: pixels lie in [0, 1], and these reach from {array.min():g} to {array.max():g}; scale them first"
        )
    return _channels_first(array.astype(np.float32))


def _png(value: str, spec: InputSpec, limits: InputLimits) -> Pixels:
    if not value.startswith(PNG_PREFIX):
        raise InvalidRequest(f"input: an image given as text must be a URL that starts with {PNG_PREFIX}")
    try:
        image = Image.open(io.BytesIO(base64.b64decode(value[len(PNG_PREFIX) :], validate=True)), formats=["PNG"])
        if image.width * image.height > limits.image_pixels:
            raise TooLarge(
                f"input: the image has {image.width} x {image.height} pixels; at most {limits.image_pixels:,} are"
                " taken (limits.image_pixels)"
            )
        decoded = np.asarray(image.convert("L" if spec.channels == 1 else "RGB"), dtype=np.float32) / np.float32(255)
    except TooLarge:
        raise
    except binascii.Error:
        raise InvalidRequest("input: the image URL is not valid base64") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        raise InvalidRequest("input: the image URL does not hold a PNG that can be read") from None
    return _channels_first(decoded)


def _channels_first(pixels: Pixels) -> Pixels:
    return pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def _kind_of(value: Any) -> str:
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return kinds.get(type(value), type(value).__name__)
