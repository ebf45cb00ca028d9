"""Pixels as a model is given them that says nothing of pictures itself: of one size, in [0, 1]."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from demur.serve.contract.inputs import InputSpec, Pixels

Floats = NDArray[np.float32]


def as_floats(pixels: NDArray[Any]) -> Floats:
    """Return pixels in [0, 1], whichever way they came."""
    floats: Floats = pixels.astype(np.float32, copy=False)
    return floats / np.float32(255) if pixels.dtype == np.uint8 else floats


def sized(pixels: Pixels, spec: InputSpec) -> Floats:
    """Return a picture [channels, height, width] of the model's size, in [0, 1].

    A picture of another size is resized to it, bilinearly and with antialiasing. Its proportions are not kept.
    """
    floats = as_floats(pixels)
    if floats.shape[1:] == (spec.height, spec.width):
        return floats
    return np.stack([_resized(channel, spec) for channel in floats])


def _resized(channel: Floats, spec: InputSpec) -> Floats:
    image = Image.fromarray(np.ascontiguousarray(channel))
    done = image.resize((spec.width, spec.height), Image.Resampling.BILINEAR)
    return np.clip(np.asarray(done, dtype=np.float32), 0, 1)
