"""What pages show of texts from outside: everything that is there can be seen.

A template cannot forget it: `visible` is the `finalize` of every environment of Jinja that makes pages.
"""

from typing import Any

from markupsafe import Markup

from demur.traffic.hidden_characters import spelled_out


class SentBack(str):
    """A text that a page holds for the browser to send it back, and that must come back as it was."""


def visible(value: Any) -> Any:
    """A value as a page shows it: in a text, hidden characters are spelled out. In `Markup` they have been already."""
    if isinstance(value, Markup | SentBack) or not isinstance(value, str):
        return value
    return spelled_out(value, lambda character: f"[U+{ord(character):04X}]")
