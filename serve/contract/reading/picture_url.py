"""An input as the address of a picture, which a browser shows."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from demur.serve.contract.inputs import PNG_PREFIX
from demur.serve.contract.reading.numbers import NoArray, array_of
from demur.serve.contract.reading.pictures import is_picture

CHANNELS = (1, 3, 4)
"""Of one that a browser shows: grey, colours, and colours with transparency."""


PNG_BEGINS = b"\x89PNG"


def picture_url(value: Any) -> str | None:
    """Return a `data:` URL of an input that is an image, as it came or made of its numbers; None for anything else."""
    if is_picture(value):
        return value if holds_png(value) else None
    if not isinstance(value, list):
        return None
    try:
        array = array_of(value)
    except NoArray:
        return None
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.dtype.kind not in "fiu" or array.ndim != 3 or not array.size or array.shape[2] not in CHANNELS:
        return None
    pixels = np.rint(np.clip(array, 0, 1) * 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).save(buffer, "PNG")
    return PNG_PREFIX + base64.b64encode(buffer.getvalue()).decode()


def holds_png(url: str) -> bool:
    """Return whether a `data:` URL holds a PNG, and is not a text that only begins like one."""
    try:
        return base64.b64decode(url.removeprefix(PNG_PREFIX), validate=True).startswith(PNG_BEGINS)
    except ValueError:
        return False
