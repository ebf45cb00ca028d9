"""Texts that people write in the place of replies that are wrong, checked before they are kept."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from demur.serve.config.pydantic_words import written_as
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.traffic.record import Answer

LONGEST = 100_000
"""Characters of a text in the place of a reply."""

CorrectedText = Annotated[
    str,
    Field(max_length=LONGEST),
    written_as(
        r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$",
        "control characters other than line breaks and tabs are not taken here",
    ),
]
"""A text with its line breaks and tabs."""


def plain_lines(text: str) -> str:
    """Return a text whose lines all end alike."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def checked_text(text: str, label: Answer | None, model: str, task: TaskConfig, reply: str | None) -> str:
    """Return a text in the place of a reply, with line breaks as `\\n`. `reply` is what the model wrote; None where
    that is not known. Raise `InvalidRequest` where the text does not fit."""
    if not task.writes:
        raise InvalidRequest(
            f"text: {model!r} has a {task.kind} task, which writes no text to be corrected; leave it out"
        )
    if label != "wrong":
        raise InvalidRequest("text: only a reply that is `wrong` has another text in its place; leave it out")
    plain = plain_lines(text)
    if not plain.strip():
        raise InvalidRequest("text: it is empty; write what the reply should have been, or leave it out")
    if reply is not None and plain.strip() == plain_lines(reply).strip():
        raise InvalidRequest("text: it is the reply as the model wrote it; change it, or say that the reply is right")
    return plain


def checked_codes(codes: Sequence[str], label: Answer | None, model: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return why a reply is wrong, each code once, in the order of the configuration. Raise `InvalidRequest` for a code
    that the configuration does not have, and where the reply is not wrong."""
    if not codes:
        return ()
    if unknown := [code for code in codes if code not in known]:
        there = f"there are: {', '.join(known)}" if known else f"none are configured (review.models.{model}.codes)"
        raise InvalidRequest(f"codes: there is no code {unknown[0]!r} for {model!r}; {there}")
    if label != "wrong":
        raise InvalidRequest("codes: they say why a reply is `wrong`; leave them out")
    return tuple(code for code in known if code in codes)
