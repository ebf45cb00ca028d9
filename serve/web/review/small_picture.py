"""Small pictures drawn smooth and larger: as squares of pixels, people misread them."""

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.pictures.formats import PNG, url_of
from demur.serve.contract.reading.pictures import Picture

SMALL = 64
"""Pixels of the longer side up to which a picture is small."""

LARGE_SIDE = 256
THUMBNAIL_SIDE = 96
"""Pixels of the longer side as it is drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SmallPicture:
    """A small picture as it is drawn for people."""

    smooth: str
    thumbnail: str
    """The URLs of both."""

    width: int
    height: int
    """Of the smooth one."""


def small_picture(url: str) -> SmallPicture | None:
    """Draw the picture of this URL smooth; None for one that is not small, or that cannot be read."""
    try:
        picture = Picture(url)
        if max(picture.width, picture.height) > SMALL:
            return None
        plain = _eight_bits(picture.image())
    except InvalidRequest:
        return None
    smooth = _drawn(plain, LARGE_SIDE)
    return SmallPicture(
        smooth=_url(smooth), thumbnail=_url(_drawn(plain, THUMBNAIL_SIDE)), width=smooth.width, height=smooth.height
    )


def _eight_bits(image: Image.Image) -> Image.Image:
    """In a form in which neighbouring pixels can be mixed."""
    if image.mode in ("L", "RGB"):
        return image.convert(image.mode)
    if image.mode == "1":
        return image.convert("L")
    if image.mode.startswith("I"):  # 16 bits, of which a screen shows the upper eight
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    return image.convert("RGBA")


def _drawn(image: Image.Image, side: int) -> Image.Image:
    scale = side / max(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _url(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return url_of(buffer.getvalue(), PNG)
