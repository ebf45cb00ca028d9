"""An input as the address of a picture, which a browser shows."""

import io
from typing import Any

import numpy as np
from PIL import Image

from demur.serve.contract.pictures.formats import PNG, holds_picture, is_picture, url_of
from demur.serve.contract.reading.numbers import NoArray, array_of

CHANNELS = (1, 3, 4)
"""Of one that a browser shows: grey, colours, and colours with transparency."""


def picture_url(value: Any) -> str | None:
    """Return a `data:` URL of an input that is an image, as it came or made of its numbers; None for anything else."""
    if is_picture(value):
        return value if holds_picture(value) else None
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
    return url_of(buffer.getvalue(), PNG)
