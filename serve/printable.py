"""Text from outside, as a terminal may be shown it."""

import re

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters but tab and newline, with which text moves the cursor, sets titles or answers for whoever types;
and those that turn the direction of what follows."""


def printable(text: str) -> str:
    """The same text with each of them spelled out, such as \\x1b."""
    return UNSAFE.sub(_spelled, text) if UNSAFE.search(text) else text


def one_line(text: str) -> str:
    """The same, and without ends of lines, so that nobody adds lines to a log."""
    return printable(text).replace("\n", "\\n")


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
