"""A reply as the page of a case shows it: the text, and what people wrote in its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from markupsafe import Markup

from demur.review.item import Opinion
from demur.serve.contract.corrections import LONGEST, plain_lines
from demur.serve.web.review.markdown import rendered
from demur.serve.web.review.service import VisibleCase
from demur.serve.web.review.text_diff import DiffPart, text_diff
from demur.serve.web.review.weak_tokens import NO_TOKENS, WeakPart, weak_parts
from demur.traffic.record import Reply

WEAKEST = 5
"""Words that the model was least sure of, which are named under the reply."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownCorrection:
    """What somebody wrote in the place of the reply, and why it is wrong."""

    text: str | None
    codes: Sequence[str]
    parts: Sequence[DiffPart]
    """The way from the model's text to this one."""

    @property
    def is_something(self) -> bool:
        return self.text is not None or bool(self.codes)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownReasoning:
    """The trace that led to a reply."""

    text: str
    words: int
    left_out: int
    """Characters at its end that are not kept."""


@dataclass(frozen=True, kw_only=True)
class ShownReply:
    """A reply, ready for a template."""

    text: str | None
    """None where there is none, or no longer."""

    codes: Sequence[str]
    """Why it may be wrong, in the words of the configuration."""

    corrections: Mapping[tuple[UUID, int], ShownCorrection]
    """By the case and the token of the opinion."""

    outcome: ShownCorrection | None
    """What was decided in its place; None while nothing was."""

    html: Markup | None
    """The text as its Markdown says; None where it has none."""

    pieces: Sequence[WeakPart]
    """The text as it was written, with what the model was not sure of."""

    reasoning: ShownReasoning | None
    longest: int = LONGEST

    @property
    def n_weak(self) -> int:
        return sum(part.weak is not None for part in self.pieces)

    @property
    def weakest(self) -> list[WeakPart]:
        """What the model was least sure of, in the order of the text."""
        weak = [(part.weak, at) for at, part in enumerate(self.pieces) if part.weak is not None]
        return [self.pieces[at] for at in sorted(at for _, at in sorted(weak)[:WEAKEST])]

    def by(self, said: Opinion | None) -> ShownCorrection | None:
        """What was written with an opinion; None where nothing was."""
        return None if said is None else self.corrections.get((said.case_id, said.token))


def shown_reply(sight: VisibleCase, codes: Sequence[str]) -> ShownReply:
    """Return the reply of a case as one person may see it. The trace, and how sure the model was of each word, are what
    the model said of its reply: whoever answers blindly sees them afterwards."""
    reply = sight.record.reply
    text = reply["text"] if reply else None
    said = {(one.case_id, one.token): one for one in (*sight.opinions, *([sight.own] if sight.own else []))}
    corrections = {key: _correction(text, one) for key, one in said.items()}
    counts = [one for one in sight.outcomes if one.text is not None or one.codes]
    return ShownReply(
        text=text,
        codes=codes,
        corrections={key: one for key, one in corrections.items() if one.is_something},
        outcome=_correction(text, counts[-1]) if counts else None,
        html=None if text is None else rendered(text),
        pieces=[] if reply is None else weak_parts(reply if sight.shown else {**reply, "tokens": NO_TOKENS}),
        reasoning=_reasoning(reply) if reply and sight.shown else None,
    )


def _reasoning(reply: Reply) -> ShownReasoning | None:
    text = reply.get("reasoning")
    if not text:
        return None
    whole = reply.get("reasoning_characters", len(text))
    return ShownReasoning(text=text, words=len(text.split()), left_out=whole - len(text))


def _correction(reply: str | None, said: Any) -> ShownCorrection:
    parts = [] if said.text is None else text_diff(reply or "", said.text)
    return ShownCorrection(text=said.text, codes=said.codes or (), parts=parts)


def changed_text(typed: str, reply: Reply | None) -> str | None:
    """Return what somebody typed in the editor; None where it is what the editor began with, or nothing. A browser
    sends `\\r\\n` for each line break."""
    text = plain_lines(typed)
    return None if not text.strip() or text.strip() == plain_lines(reply["text"] if reply else "").strip() else text
