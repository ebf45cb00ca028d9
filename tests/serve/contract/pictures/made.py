"""Pictures as other programs write them, and what the reader makes of a file."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, ModelInput
from demur.serve.contract.pictures.formats import FORMATS, url_of
from demur.serve.contract.reading.inputs import read_input

COLOURED = InputSpec(kind="image", channels=3, height=40, width=60)
LIMITS = InputLimits(text_characters=1)
ORIENTATION = 0x112

PICTURE = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)).resize((70, 50))
"""70 x 50 smooth colours."""


def encoded(name: str, image: Image.Image = PICTURE, **settings: Any) -> bytes:
    """Return a picture as Pillow writes it in this format."""
    buffer = io.BytesIO()
    image.save(buffer, name, **settings)
    return buffer.getvalue()


def turned(orientation: int) -> Image.Exif:
    """Return what a camera says that was held so."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def read(name: str, file: bytes) -> ModelInput:
    """Read a file that a URL calls by the name of a format."""
    return read_input(url_of(file, {one.name: one for one in FORMATS}[name]), COLOURED, LIMITS)


def refusal(name: str, file: bytes) -> str:
    """Return why a file is refused; an error where it is taken."""
    try:
        read(name, file)
    except InvalidRequest as error:
        return str(error)
    raise AssertionError("it was taken")


def read_or_refuse_changed(name: str, file: bytes) -> None:
    """Change a few bytes again and again. Each such file has to be read or refused: any other error is a fault."""
    random = np.random.default_rng(1)
    for _ in range(300):
        changed = bytearray(file)
        for at in random.integers(2, len(file), 3):
            changed[at] = random.integers(256)
        try:
            pixels = read(name, bytes(changed))
        except InvalidRequest:
            continue
        assert np.asarray(pixels).ndim == 3


def difference(one: ModelInput, other: ModelInput) -> float:
    """Return the mean difference of two pictures, in shades of 256."""
    return float(np.abs(_shades(one) - _shades(other)).mean())


def _shades(pixels: ModelInput) -> NDArray[np.int64]:
    return np.asarray(pixels).astype(np.int64)


SECRET = b"41.40338 N, 2.17403 E"
"""Where a picture was taken, as a camera or a program writes it beside the pixels."""

GPS, LATITUDE_NOTE = 0x8825, 0x1B
"""The directory of places in Exif, and a text in it."""


def told_exif(orientation: int = 1) -> Image.Exif:
    """Return what a telephone says of a photo: how it was held, and where."""
    exif = turned(orientation)
    exif[GPS] = {LATITUDE_NOTE: SECRET}
    return exif


def telling(name: str, orientation: int = 1) -> bytes:
    """Return a picture in this format that says where it was taken, in every place of which its format has one."""
    file = encoded(name, exif=told_exif(orientation), **BESIDE[name])
    assert file.count(SECRET) > 1
    return file


def _texts() -> PngInfo:
    texts = PngInfo()
    texts.add_text("Comment", SECRET.decode())
    texts.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    return texts


BESIDE: dict[str, dict[str, Any]] = {
    "PNG": {"pnginfo": _texts()},
    "JPEG": {"comment": SECRET, "xmp": SECRET, "icc_profile": SECRET, "quality": 95},
    "WEBP": {"xmp": SECRET, "icc_profile": SECRET, "quality": 95},
}
"""Beside Exif, where a picture may say more than its pixels."""
