"""Inputs as JSON has them, and images as arrays: what every protocol begins with."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.serve.config.hosts.remote import RemoteSettings
from demur.serve.contract.inputs import JsonInput, ModelInput, TableRow, TextPair


def json_value(value: ModelInput, host: RemoteSettings) -> Any:
    """Return a text, an object or a list for a pair or a row, base64 for bytes, nested lists for an image, or any
    JSON as it came. What is missing is None."""
    if isinstance(value, TableRow):
        if host.table_rows == "arrays" and not host.is_oip:
            return list(value.cells)
        return dict(zip(host.input.columns, value.cells, strict=True))
    if isinstance(value, TextPair):
        return {"text": value.text, "text_pair": value.text_pair}
    if isinstance(value, JsonInput):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return pixels_of(value, host).tolist() if isinstance(value, np.ndarray) else value


def pixels_of(value: NDArray[Any], host: RemoteSettings) -> NDArray[np.float32]:
    """Return an image in [0, 1], its channels where the server wants them."""
    floats = value.astype(np.float32) / np.float32(255) if value.dtype == np.uint8 else value.astype(np.float32)
    return np.moveaxis(floats, 0, -1) if host.layout == "nhwc" else floats


def about_bytes(inputs: Sequence[ModelInput]) -> int:
    """Return about how many bytes a body of these inputs has: large ones are made beside the event loop."""
    return sum(
        8 * one.size if isinstance(one, np.ndarray) else len(one) if isinstance(one, str | bytes) else 200
        for one in inputs
    )
