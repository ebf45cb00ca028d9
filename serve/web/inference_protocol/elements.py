"""What single elements of BYTES say."""

from typing import Any

import orjson
from pydantic_core import from_json

from demur.serve.contract.body import check_whole_numbers
from demur.serve.contract.inputs import InvalidRequest


def text_in(element: bytes, place: str) -> str:
    """Return an element of BYTES as text."""
    try:
        return element.decode()
    except UnicodeDecodeError:
        raise InvalidRequest(f"{place} is not text in UTF-8") from None


def json_in(element: bytes, place: str) -> Any:
    """Return what an element of BYTES says as JSON."""
    try:
        return orjson.loads(element)
    except orjson.JSONDecodeError:
        pass  # less is said of what is wrong
    try:
        value = from_json(element, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"{place} is not JSON: {error}") from None
    try:
        check_whole_numbers(value)
    except InvalidRequest as error:
        raise InvalidRequest(f"{place}: {error}") from None
    return value
