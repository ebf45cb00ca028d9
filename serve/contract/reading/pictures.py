"""Pictures that come as PNG: measured by the decoder that is to decode them, and then no larger than a model needs."""

import binascii
import io
import struct
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngImageFile

from demur.serve.contract.inputs import PNG_PREFIX, InputLimits, InputSpec, InvalidRequest, TooLarge

MOST_OBLONG = 32
"""The longer side of a picture has at most so many times the pixels of the shorter one. Models that keep the shape of a
picture enlarge one of 1 x 5,000 to 224 x 1,120,000 before they cut out its middle."""

TIMES_THE_SIDES = 3
"""A picture of more than so many times the model's width and height is shrunk to that. The model's own processor does
the rest. What it makes of a photo then differs by a quarter of one of 256 shades on average, and by five at most."""

BYTES_PER_PIXEL = 12
"""At most, while a picture is decoded: four as it is in the file, four in the colours of the model, and four while it
is shrunk. Of one that is shrunk to less than a quarter, little more than the first four."""

MOST_BESIDE_PIXELS = 2**20
"""Bytes of a file that make no pixels: profiles, texts. All of the file is stored with the record."""

FILE_BYTES_PER_PIXEL = 9
"""At most: four channels of 16 bits, and a byte for each row, which may have one pixel."""

PIXELS_OF_A_STRIP = 2**19

ENCODED_AT_A_TIME = 2**18
"""Characters of base64 that are read at a time, so that other threads get their turn. It is divisible by four."""

HEAD_OF_CHUNK = struct.Struct(">I4s")
"""The length and the type of a piece of a PNG."""

BEFORE_PIXELS = (b"IHDR", b"PLTE")
"""Pieces of a PNG that a decoder needs before the image data: its size and its palette. A file has each once."""

SPARE_PIECES = 512
BYTES_OF_A_PIECE = 512
"""A PNG has at most one piece for so many of its bytes, beside the spare ones. Programs write 8 KB at a time. Sixteen
megabytes of empty pieces would take half a second, in which other threads hardly run."""

NO_PNG = "input: the image URL does not hold a PNG that can be read"

CANNOT_BE_READ = (OSError, SyntaxError, ValueError, EOFError, IndexError, TypeError, KeyError, struct.error)
"""What Pillow raises where a file is broken."""


class Picture:
    """A PNG of which nothing but the size is known yet. Raises `InvalidRequest` for what is none."""

    def __init__(self, url: str) -> None:
        file = _file_in(url)
        self.file_bytes = len(file)
        pixel_data = io.BytesIO(_pixel_data(file))
        try:
            self._image = PngImageFile(pixel_data)
        except CANNOT_BE_READ:
            raise InvalidRequest(NO_PNG) from None

    @property
    def width(self) -> int:
        return self._image.width

    @property
    def height(self) -> int:
        return self._image.height

    @property
    def pixels(self) -> int:
        """How many pixels are decoded."""
        return self.width * self.height

    def pixels_left(self, spec: InputSpec) -> int:
        """How many pixels there are once it is shrunk."""
        width, height = self._size_for(spec)
        return width * height

    def decoded(self, spec: InputSpec) -> NDArray[np.uint8]:
        """Return its pixels [channels, height, width], shrunk where it is far larger than the model's input.

        It takes up to `BYTES_PER_PIXEL` for each pixel of the file while it is decoded.
        """
        try:
            self._image.load()
            pixels = self._eight_bits("L" if spec.channels == 1 else "RGB", self._size_for(spec))
        except CANNOT_BE_READ:
            raise InvalidRequest(NO_PNG) from None
        finally:
            self._image.close()
        return pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)

    def _eight_bits(self, mode: str, size: tuple[int, int]) -> NDArray[np.uint8]:
        """Grey or coloured pixels [height, width] or [height, width, 3]."""
        deep = self._image.mode == "I;16"  # of which Pillow would make white wherever it is not nearly black
        factor = max(1, self.width // (2 * size[0]))  # so that twice the size is left for what is done exactly
        image = _reduced(self._image, "I" if deep else mode, factor)
        if image.size != size:
            box = 0, 0, self.width / factor, self.height / factor
            image = image.resize(size, Image.Resampling.BICUBIC, box)
        if deep:
            image = image.point(lambda value: value * (1 / 256)).convert("L").convert(mode)
        return np.asarray(image)

    def _size_for(self, spec: InputSpec) -> tuple[int, int]:
        """Its width and height once it is shrunk, in the same proportion."""
        by = min(self.width / (TIMES_THE_SIDES * spec.width), self.height / (TIMES_THE_SIDES * spec.height))
        return self._image.size if by <= 1 else (round(self.width / by), round(self.height / by))


def _reduced(image: Image.Image, mode: str, factor: int) -> Image.Image:
    """A picture in other colours, its sides divided by a whole number and rounded up. It is made in strips: a second
    picture of the full size would take as much room as the first, and time in which no other thread runs."""
    if image.mode == mode and factor == 1:
        return image
    width, height = image.size
    reduced = Image.new(mode, (-(-width // factor), -(-height // factor)))
    rows = factor * max(1, PIXELS_OF_A_STRIP // (factor * width))
    for top in range(0, height, rows):
        strip = image.crop((0, top, width, min(top + rows, height))).convert(mode)
        reduced.paste(strip.reduce(factor), (0, top // factor))
    return reduced


def is_picture(value: Any) -> TypeGuard[str]:
    """Whether an input is a PNG, by how it begins."""
    return isinstance(value, str) and value.startswith(PNG_PREFIX)


def measured(urls: Sequence[str], spec: InputSpec, limits: InputLimits) -> list[Picture | InvalidRequest]:
    """Return the pictures of one request, or why one of them is not taken. None of them is decoded.

    A small file may unfold into a large picture, and a batch may hold a thousand, so they are counted together.
    """
    most, used = limits.pixels_of(spec), 0
    found: list[Picture | InvalidRequest] = []
    for url in urls:
        try:
            picture = Picture(url)
            _check_size(picture, used, most)
            used += picture.pixels
            found.append(picture)
        except InvalidRequest as error:
            found.append(error)
    return found


def _check_size(picture: Picture, used: int, most: int) -> None:
    if picture.pixels > most:
        raise TooLarge(
            f"input: the image has {picture.width:,} x {picture.height:,} pixels; at most {most:,} are taken"
            " (limits.image_pixels)"
        )
    if picture.file_bytes > MOST_BESIDE_PIXELS + FILE_BYTES_PER_PIXEL * picture.pixels:
        raise TooLarge(
            f"input: the image has {picture.width:,} x {picture.height:,} pixels in a file of {picture.file_bytes:,}"
            f" bytes; at most {MOST_BESIDE_PIXELS:,} are taken that make no pixels, such as profiles and texts"
        )
    if max(picture.width, picture.height) > MOST_OBLONG * min(picture.width, picture.height):
        raise TooLarge(
            f"input: the image has {picture.width:,} x {picture.height:,} pixels; one side may be at most"
            f" {MOST_OBLONG} times as long as the other"
        )
    if used + picture.pixels > most:
        raise TooLarge(
            f"input: the images of one request have more than {most:,} pixels together, which is what is taken"
            " (limits.image_pixels)"
        )


def _file_in(url: str) -> bytes:
    """The file in a URL; raises `InvalidRequest`."""
    try:
        if 0 <= url.find("=") < len(url) - 2:
            raise ValueError
        encoded = memoryview(url.encode("ascii"))[len(PNG_PREFIX) :]
        pieces = [encoded[at : at + ENCODED_AT_A_TIME] for at in range(0, len(encoded), ENCODED_AT_A_TIME)]
        return b"".join([binascii.a2b_base64(piece, strict_mode=True) for piece in pieces])
    except ValueError:  # `binascii.Error` is one
        raise InvalidRequest(
            "input: the image URL is not valid base64: letters, digits, + and /, without line breaks, and = at the end"
        ) from None


def _pixel_data(png: bytes) -> bytes:
    """A PNG without all that makes no pixels (profiles, texts, animations), its image data in one piece.

    Texts and profiles are packed: a kilobyte of them unfolds into a megabyte. And the decoder's time for a thousand
    pieces of nothing is that for a thousand pieces. Raises `InvalidRequest` for a second header or palette, for a piece
    that nobody knows and no decoder may pass over, and for very many pieces.
    """
    kept, data, at, missing = [png[:8]], [], 8, set(BEFORE_PIXELS)
    pieces_left = SPARE_PIECES + len(png) // BYTES_OF_A_PIECE
    while at + HEAD_OF_CHUNK.size <= len(png):
        if not pieces_left:
            raise InvalidRequest(f"{NO_PNG}: it is cut into too many pieces")
        pieces_left -= 1
        length, kind = HEAD_OF_CHUNK.unpack_from(png, at)
        end = at + HEAD_OF_CHUNK.size + length + 4  # with its checksum
        if kind == b"IDAT":
            data.append(png[at + HEAD_OF_CHUNK.size : end - 4])
        elif kind[0] & 32 == 0:  # not in lower case: nobody can do without it
            if data:
                break
            if kind not in missing:
                raise InvalidRequest(NO_PNG)
            missing.remove(kind)
            kept.append(png[at:end])
        at = end
    image = b"".join(data)
    return b"".join([*kept, len(image).to_bytes(4, "big"), b"IDAT", image, bytes(4)])
