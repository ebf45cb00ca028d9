"""A text as it is compared: without case, marks around it and extra spaces."""

WRAPPING = " \t\r\n\"'`*_.,:;!?()[]{}<>"
"""What may stand around a label or an option without changing it."""


def plain(text: str) -> str:
    """Without differences of case and blanks."""
    return " ".join(text.split()).casefold()
