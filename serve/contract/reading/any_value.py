"""Bytes, and values that the model reads by itself."""

import binascii
from typing import Any

from demur.serve.contract.inputs import InvalidRequest, JsonInput
from demur.serve.contract.reading.texts import kind_of

URL_BEGINS = "data:"
OF_BYTES = ";base64,"


def read_bytes(value: Any) -> bytes:
    """Return bytes that came in base64, by themselves or as a `data:` URL."""
    if not isinstance(value, str):
        raise InvalidRequest(f"input: this model takes bytes, as a text in base64, not {kind_of(value)}")
    if value.startswith(URL_BEGINS):
        _, comma, value = value.partition(OF_BYTES)
        if not comma:
            raise InvalidRequest("input: a URL of bytes looks like data:application/octet-stream;base64,...")
    try:
        return binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
    except ValueError:
        raise InvalidRequest(
            "input: the text is not valid base64: letters, digits, + and /, without line breaks, and = at the end"
        ) from None


def read_any(value: Any) -> JsonInput:
    """Return a value as it came; only nothing is refused."""
    if value is None:
        raise InvalidRequest("input: a value is wanted here, not null")
    return JsonInput(value)
