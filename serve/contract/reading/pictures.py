"""Pictures of a request: measured before one is decoded, and then no larger than a model needs."""

import binascii
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.pictures.formats import PREFIXES, THESE, format_of, prefix_in, prefix_of, url_of
from demur.serve.contract.pictures.picture_file import CANNOT_BE_READ, PictureFile, cannot_be_read

MOST_OBLONG = 32
"""The longer side of a picture has at most so many times the pixels of the shorter one. Models that keep the shape of a
picture enlarge one of 1 x 5,000 to 224 x 1,120,000 before they cut out its middle."""

TIMES_THE_SIDES = 3
"""A picture of more than so many times the model's width and height is shrunk to that. The model's own processor does
the rest. What it makes of a photo then differs by a quarter of one of 256 shades on average, and by five at most."""

BYTES_PER_PIXEL = 20
"""At most, while a picture is decoded. Of a PNG and a JPEG 12: four as it is in the file (ten while a progressive JPEG
is decoded), four in the colours of the model, and four while it is shrunk. A WebP has five copies of the first four."""

MOST_BESIDE_PIXELS = 2**20
"""Bytes of a file that make no pixels: profiles, texts."""

FILE_BYTES_PER_PIXEL = 9
"""At most: four channels of 16 bits, and a byte for each row, which may have one pixel."""

PIXELS_OF_A_STRIP = 2**19

ENCODED_AT_A_TIME = 2**18
"""Characters of base64 that are read at a time, so that other threads get their turn. It is divisible by four."""


class Picture:
    """A picture of which nothing but the size is known yet. Raises `InvalidRequest` for what is none."""

    def __init__(self, url: str) -> None:
        prefix = prefix_in(url)
        if prefix is None:
            raise InvalidRequest(f"input: an image given as text must be a URL that starts with {THESE}")
        self._format = PREFIXES[prefix]
        content = _file_in(url, prefix)
        self._url, self.file_bytes = url, len(content)
        if not self._format.begins(content):
            other = format_of(content)
            raise cannot_be_read(self._format.name, f"it is a {other.name}; say {prefix_of(other)}" if other else "")
        self._file: PictureFile = self._format.read(content)
        self._is_bare = self._file.kept == content

    @property
    def width(self) -> int:
        return self._file.height if self._file.is_on_its_side else self._file.width

    @property
    def height(self) -> int:
        return self._file.width if self._file.is_on_its_side else self._file.height

    @property
    def kept_url(self) -> str:
        """Return a URL of the picture without what makes no pixels; the one that came, where there is nothing else in
        its file."""
        return self._url if self._is_bare else url_of(self._file.kept, self._format)

    @property
    def pixels(self) -> int:
        """How many pixels are decoded."""
        return self.width * self.height

    def pixels_left(self, spec: InputSpec) -> int:
        """How many pixels there are once it is shrunk."""
        width, height = self._size_for(spec)
        return width * height

    def image(self) -> Image.Image:
        """Return it decoded, upright, and in no other way changed."""
        with self._opened() as image:
            return image.copy() if self._file.turn is None else image.transpose(self._file.turn)

    def decoded(self, spec: InputSpec) -> NDArray[np.uint8]:
        """Return its pixels [channels, height, width], shrunk where it is far larger than the model's input.

        It takes up to `BYTES_PER_PIXEL` for each pixel of the file while it is decoded.
        """
        width, height = self._size_for(spec)
        size = (height, width) if self._file.is_on_its_side else (width, height)
        with self._opened() as image:
            shrunk = _eight_bits(image, "L" if spec.channels == 1 else "RGB", size)
        pixels = np.asarray(shrunk if self._file.turn is None else shrunk.transpose(self._file.turn))
        return pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)

    @contextmanager
    def _opened(self) -> Iterator[Image.Image]:
        """Decode it as it is in the file. The decoder has to find the size that was measured."""
        try:
            with self._file.opened() as image:
                if image.size != (self._file.width, self._file.height):
                    raise ValueError
                image.load()
                yield image
        except CANNOT_BE_READ:
            raise cannot_be_read(self._format.name) from None

    def _size_for(self, spec: InputSpec) -> tuple[int, int]:
        """Its width and height, upright, once it is shrunk, in the same proportion."""
        by = min(self.width / (TIMES_THE_SIDES * spec.width), self.height / (TIMES_THE_SIDES * spec.height))
        return (self.width, self.height) if by <= 1 else (round(self.width / by), round(self.height / by))


def _eight_bits(image: Image.Image, mode: str, size: tuple[int, int]) -> Image.Image:
    """Grey or coloured pixels of this size."""
    deep = image.mode == "I;16"  # of which Pillow would make white wherever it is not nearly black
    factor = max(1, image.width // (2 * size[0]))  # so that twice the size is left for what is done exactly
    reduced = _reduced(image, "I" if deep else mode, factor)
    if reduced.size != size:
        box = 0, 0, image.width / factor, image.height / factor
        reduced = reduced.resize(size, Image.Resampling.BICUBIC, box)
    if deep:
        reduced = reduced.point(lambda value: value * (1 / 256)).convert("L").convert(mode)
    return reduced


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


def _file_in(url: str, prefix: str) -> bytes:
    """The file in a URL, behind its prefix; raises `InvalidRequest`."""
    try:
        if 0 <= url.find("=") < len(url) - 2:
            raise ValueError
        encoded = memoryview(url.encode("ascii"))[len(prefix) :]
        pieces = [encoded[at : at + ENCODED_AT_A_TIME] for at in range(0, len(encoded), ENCODED_AT_A_TIME)]
        return b"".join([binascii.a2b_base64(piece, strict_mode=True) for piece in pieces])
    except ValueError:  # `binascii.Error` is one
        raise InvalidRequest(
            "input: the image URL is not valid base64: letters, digits, + and /, without line breaks, and = at the end"
        ) from None
