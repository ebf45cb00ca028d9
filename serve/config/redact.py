"""What is taken out of inputs and replies before anything is stored: `redact` in the configuration."""

from typing import Annotated

import re2
from pydantic import Field, field_validator

from demur.serve.config.pydantic_words import PythonName, written_as
from demur.serve.config.settings import Section

QUIET = re2.Options()
QUIET.log_errors = False


class PatternConfig(Section):
    pattern: str = Field(min_length=1, max_length=1000)
    """In RE2's syntax, of which the time grows with the text and no faster: no look-around, no back-references."""

    replace: str = Field(default="[removed]", max_length=200)
    """Stands in the place of what matched, as it is written here."""

    @field_validator("pattern")
    @classmethod
    def compiles(cls, pattern: str) -> str:
        try:
            found = re2.compile(pattern, QUIET)
        except re2.error as error:
            why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
            raise ValueError(f"{pattern!r} is not a pattern of RE2: {why}") from None
        if found.search("") is not None:
            raise ValueError(f"{pattern!r} matches where there is nothing; let it match something")
        return pattern


PatternName = Annotated[
    str,
    written_as(
        r"^[a-z][a-z0-9_-]{0,62}$",
        "a pattern's name has lower-case letters, digits, `_` and `-`, up to 63 of them, and begins with a letter",
    ),
]


class RedactConfig(Section):
    """Applied to every text of an input and to every reply, of all models: first the function, then the patterns."""

    patterns: dict[PatternName, PatternConfig] = Field(default={})
    """By name, each applied to what the one before has left."""

    function: PythonName | None = None
    """`package.module:function` of your own: it is given an input, or a reply as a text, and returns what is stored."""
