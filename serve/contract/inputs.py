"""What a model takes, how much of it one request may bring, and how a request is refused."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

PNG_PREFIX = "data:image/png;base64,"
PNG_BEGINS = b"\x89PNG"

Pixels = NDArray[np.float32] | NDArray[np.uint8]
"""[channels, height, width]: `float32` in [0, 1] as numbers came, or `uint8` in [0, 255] as a PNG has them, which takes
a quarter of the room."""


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
        own = spec.height * spec.width
        return max(own, min(MOST_PIXELS, max(FEWEST_PIXELS, TIMES_THE_MODEL * own)))
