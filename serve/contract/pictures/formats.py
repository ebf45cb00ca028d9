"""The formats of pictures that are taken, and how one is told by its URL or by its first bytes."""

import base64
from typing import Any, TypeGuard

from demur.serve.contract.pictures.jpeg import JpegFormat
from demur.serve.contract.pictures.picture_file import PictureFormat
from demur.serve.contract.pictures.png import PngFormat
from demur.serve.contract.pictures.webp import WebpFormat

PNG = PngFormat()
FORMATS: tuple[PictureFormat, ...] = (PNG, JpegFormat(), WebpFormat())


def prefix_of(one: PictureFormat) -> str:
    """Return how the URL of a picture begins; its file follows in base64."""
    return f"data:{one.media_type};base64,"


PREFIXES = {prefix_of(one): one for one in FORMATS}
THESE = " or ".join([", ".join([*PREFIXES][:-1]), [*PREFIXES][-1]])
NAMES = " or a ".join([", a ".join([one.name for one in FORMATS][:-1]), FORMATS[-1].name])
"""All of them, in words."""

ENOUGH = 24
"""Characters of base64 that show how a file begins."""


def url_of(file: bytes, one: PictureFormat) -> str:
    """Return a `data:` URL of a file."""
    return prefix_of(one) + base64.b64encode(file).decode()


def format_of(file: bytes) -> PictureFormat | None:
    """Return the format that a file claims by its first bytes; None for any other file."""
    return next((one for one in FORMATS if one.begins(file)), None)


def prefix_in(url: str) -> str | None:
    """Return which of the prefixes a text begins with; None where it is none of them."""
    return next((prefix for prefix in PREFIXES if url.startswith(prefix)), None)


def is_picture(value: Any) -> TypeGuard[str]:
    """Whether an input is a picture, by how it begins."""
    return isinstance(value, str) and value.startswith(tuple(PREFIXES))


def holds_picture(url: str) -> bool:
    """Return whether a `data:` URL holds the picture that it says, and is not a text that only begins like one."""
    prefix = prefix_in(url)
    if prefix is None:
        return False
    try:
        return PREFIXES[prefix].begins(base64.b64decode(url[len(prefix) :], validate=True))
    except ValueError:
        return False
