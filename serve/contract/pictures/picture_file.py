"""What is known of the file of a picture before it is decoded, and what each format says of itself."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from demur.serve.contract.inputs import InvalidRequest

SPARE_PIECES = 512
BYTES_OF_A_PIECE = 512
"""A file has at most one piece for so many of its bytes, beside the spare ones. Programs write 8 KB at a time. Sixteen
megabytes of empty pieces would take half a second, in which other threads hardly run."""

CANNOT_BE_READ = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    TypeError,
    KeyError,
    struct.error,
    Image.DecompressionBombError,
)
"""What Pillow raises where a file is broken."""


@dataclass(frozen=True, kw_only=True)
class PictureFile:
    """The file of one picture, of which nothing is decoded yet."""

    width: int
    height: int
    """As the file has them, before `turn`."""

    opened: Callable[[], Image.Image]
    """Opens what makes pixels, and nothing else of the file. Raises `CANNOT_BE_READ`, and so does its `load`."""

    kept: bytes
    """A file of what makes pixels, and of nothing else: what is stored, and shown by browsers as the model saw it."""

    turn: Image.Transpose | None = None
    """What makes it upright."""

    @property
    def is_on_its_side(self) -> bool:
        """Whether its width is the height of the upright picture."""
        return self.turn in ON_THEIR_SIDES


ON_THEIR_SIDES = (
    Image.Transpose.ROTATE_90,
    Image.Transpose.ROTATE_270,
    Image.Transpose.TRANSPOSE,
    Image.Transpose.TRANSVERSE,
)


class PictureFormat(Protocol):
    """A format of pictures."""

    @property
    def name(self) -> str:
        """Its name, in the letters that people use for it."""

    @property
    def media_type(self) -> str: ...

    def begins(self, file: bytes) -> bool:
        """Whether a file claims to be of this format."""

    def read(self, file: bytes) -> PictureFile:
        """Check the structure of a whole file, and decode nothing. Raises `InvalidRequest`."""


def cannot_be_read(name: str, why: str = "") -> InvalidRequest:
    """Return the refusal of a file that is no picture of the format that it claims to be."""
    return InvalidRequest(f"input: the image is not a {name} that can be read{': ' if why else ''}{why}")


def on_its_side(name: str) -> InvalidRequest:
    """Return the refusal of a picture that would have to be turned, in a format in which few programs do."""
    return InvalidRequest(f"input: the image is a {name} that lies on its side (Exif); turn it and save it upright")


class Pieces:
    """Counts the pieces of one file."""

    def __init__(self, name: str, file: bytes) -> None:
        self._name, self._left = name, SPARE_PIECES + len(file) // BYTES_OF_A_PIECE

    def count(self) -> None:
        """Count one more. Raises `InvalidRequest` for one too many."""
        if not self._left:
            raise cannot_be_read(self._name, "it is cut into too many pieces")
        self._left -= 1
