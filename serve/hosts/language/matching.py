"""What a text comes down to, and whether it is right once the right one is known."""

import re
from decimal import Decimal, localcontext
from typing import Literal

Match = Literal["exact", "number", "contains"]

NUMBER = re.compile(r"(?<![\w.])[-+\u2212]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3}(?!\w))?")
"""A number, with or without a unit right behind it; no part of a word, and the minus of `9-5` is none of the 5's."""

BORDER, NO_BORDER = "\0", "\1"


def same_text(text: str) -> str:
    """Texts that differ only in case, blanks and the stop at the end are the same."""
    return " ".join(text.split()).rstrip(".!").rstrip().casefold()


def reading_of(text: str, match: Match) -> str | None:
    """What is left of a text where only its match counts: texts that say the same are the same. None for one that says
    nothing."""
    number = last_number(text) if match == "number" else None
    return number if number is not None else same_text(text) or None


def is_right(text: str, right: str, match: Match) -> bool:
    """Whether `text` says what the right one does: see `task.match`. Of numbers and words only whole ones occur in a
    text: 13 is not in 132."""
    if match == "number":
        wanted = last_number(right)
        return wanted is not None and last_number(text) == wanted
    said, wanted = same_text(text), same_text(right)
    if match == "exact" or not wanted:
        return said == wanted
    return with_borders(wanted) in with_borders(said)


def with_borders(text: str) -> str:
    """A text with a sign between any two characters, and at both ends, for whether a word begins or ends there: so one
    such text is in another one where it is there as whole words. Looked for in this way it takes as long as both are
    long, which no regular expression promises."""
    parts = re.split(r"\b", text)
    before, after = ("" if parts[0] == "" else NO_BORDER), ("" if parts[-1] == "" else NO_BORDER)
    return f"{before}{BORDER.join(map(NO_BORDER.join, parts))}{after}"


def last_number(text: str) -> str | None:
    """The last number in a text, in one spelling: that of `1,320.0` is `1320`."""
    found = NUMBER.findall(text)
    if not found:
        return None
    if found[-1].isascii() and found[-1].isdigit():
        return found[-1].lstrip("0") or "0"
    with localcontext() as context:
        context.prec = max(context.prec, len(found[-1]))
        number = Decimal(found[-1].replace(",", "").replace("\u2212", "-")).normalize()
    return "0" if number == 0 else format(number, "f")
