"""Whether a text that a model wrote is right, once the right one is known."""

import re
from typing import Literal

Match = Literal["exact", "number", "contains"]

NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def same_text(text: str) -> str:
    """Texts that differ only in case, blanks and the stop at the end are the same."""
    return " ".join(text.split()).rstrip(".!").rstrip().casefold()


def is_right(text: str, right: str, match: Match) -> bool:
    """Whether `text` says what the right one does: see `task.match`."""
    if match == "exact":
        return same_text(text) == same_text(right)
    if match == "contains":
        return same_text(right) in same_text(text)
    said, wanted = _last_number(text), _last_number(right)
    return said is not None and said == wanted


def _last_number(text: str) -> float | None:
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None
