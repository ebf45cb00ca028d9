"""What a model takes, how much of it one request may bring, and how a request is refused."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.serve.config.input import ColumnConfig, InputConfig

Pixels = NDArray[np.float32] | NDArray[np.uint8]
"""[channels, height, width]: `float32` in [0, 1] as numbers came, or `uint8` in [0, 255] as files have them, which
takes a quarter of the room."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its options, in the order of whoever asks."""

    question: str
    options: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """Messages with a `role` and a `content`; the last one is to be replied to."""

    messages: tuple[dict[str, Any], ...]
    """As `demur.serve.contract.messages` describes them."""


@dataclass(frozen=True, kw_only=True)
class TextPair:
    """Two texts that are judged together, such as a premise and a hypothesis."""

    text: str
    text_pair: str


Cell = float | str | None
"""A number (true is 1, false 0), a text, or None for what is missing."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table."""

    cells: tuple[Cell, ...]
    """In the order of the columns of the model's `spec`."""


@dataclass(frozen=True, slots=True)
class JsonInput:
    """Anything, which the model reads by itself."""

    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenReply:
    """A reply of a language model that a request brings."""

    text: str
    reasoning: str | None = None
    tokens: tuple[str, ...] = ()
    """[L]; empty where none came."""

    logprobs: NDArray[np.float64] | None = None
    """[L], NaN for one that did not come."""

    top_logprobs: tuple[NDArray[np.float64], ...] | None = None
    """[L], of each token those of its most probable alternatives."""

    finish_reason: str = "stop"


@dataclass(frozen=True, kw_only=True, slots=True)
class GivenOutput:
    """What a model that runs elsewhere said about one input: the parts that `host.gives` lists. C counts the labels of
    the task."""

    probabilities: NDArray[np.float64] | None = None
    """[C]."""

    logits: NDArray[np.float64] | None = None
    """[C]."""

    candidates: tuple[NDArray[np.int32], NDArray[np.float64]] | None = None
    """Labels [k] among very many, and their probabilities [k], the most probable first."""

    predicted: tuple[int, ...] | None = None
    """The labels that are predicted."""

    embedding: NDArray[np.float64] | None = None
    """[d]."""

    passes: NDArray[np.float64] | None = None
    """[T, C]."""

    scores: tuple[float, ...] = ()
    """In the order of `host.scores`; NaN for one that did not come."""

    reply: GivenReply | None = None
    samples: tuple[GivenReply, ...] = ()
    options: tuple[str, ...] | None = None
    """Of a question, as the request brings it beside: what the letters of a reply stand for."""


ModelInput = str | bytes | Pixels | Question | Conversation | TextPair | TableRow | JsonInput | GivenOutput


@dataclass(frozen=True, slots=True)
class CheckedInput:
    """An input that a model can be asked about."""

    value: ModelInput
    kept: Any
    """What is stored of it, as JSON: what came, its pictures without what makes no pixels, a row of a table by name."""


class InvalidRequest(ValueError):
    """The request cannot be served as it is. The message says which part, and what would be right."""


class TooLarge(InvalidRequest):
    """The request is larger than `limits` in the configuration allows."""


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """What a model takes. The size of an image is that of its processed form; pictures of other sizes are resized."""

    kind: Literal["image", "text", "text_pair", "choice", "chat", "table", "bytes", "json", "given"]
    channels: int = 0
    height: int = 0
    width: int = 0
    options: int = 0
    """How many options a question may have."""

    columns: Mapping[str, ColumnConfig] = field(default_factory=dict)
    """Of a table, in order."""

    pictures: int = 0
    """How many pictures a conversation may have."""

    @property
    def takes_pictures(self) -> bool:
        """Whether an input may be a picture, or have some in it."""
        return self.kind == "image" or self.pictures > 0


def spec_of(configured: InputConfig) -> InputSpec:
    """Return what a configured input is to the readers of requests."""
    return InputSpec(
        kind=configured.kind,
        channels=configured.channels,
        height=configured.height,
        width=configured.width,
        columns=configured.columns,
    )


def example_of(spec: InputSpec) -> ModelInput:
    """Return an input without meaning: it warms a model up, and shows what a request looks like."""
    texts: dict[str, ModelInput] = {
        "text": "a text",
        "text_pair": TextPair(text="a text", text_pair="another text"),
        "choice": Question(question="a question", options=("one option", "another option")),
        "chat": Conversation(messages=({"role": "user", "content": "a question"},)),
        "bytes": b"\0",
        "json": JsonInput({}),
    }
    if spec.kind == "image":
        return np.zeros((spec.channels, spec.height, spec.width), dtype=np.float32)
    if spec.kind == "table":
        return TableRow(tuple(_example_cell(column) for column in spec.columns.values()))
    return texts[spec.kind]


def _example_cell(column: ColumnConfig) -> Cell:
    if column.is_numeric:
        least = max(0.0, column.min or 0.0)
        number = min(least, column.max) if column.max is not None else least
        return float(math.ceil(number)) if column.kind == "integer" else number
    return column.values[0] if column.values else "a text"


TIMES_THE_MODEL = 256
"""Pixels that are taken for each of the model's input: 12.8 million for 224 x 224, which is a photo of a phone."""

FEWEST_PIXELS = 2**22
"""Taken for the smallest model as well: a picture of a screen."""

MOST_PIXELS = 2**24
"""Taken for no model without being told so, but for one whose own input is larger."""


@dataclass(frozen=True, kw_only=True)
class InputLimits:
    """How much one request may bring."""

    text_characters: int
    image_pixels: int | None = None
    """Of all its pictures; None: what follows from the size of the model's input."""

    def pixels_of(self, spec: InputSpec) -> int:
        """Pixels that the pictures of one request may have together."""
        if self.image_pixels is not None:
            return self.image_pixels
        if spec.kind == "chat":  # nobody knows what the model shrinks a picture to
            return MOST_PIXELS
        own = spec.height * spec.width
        return max(own, min(MOST_PIXELS, max(FEWEST_PIXELS, TIMES_THE_MODEL * own)))
