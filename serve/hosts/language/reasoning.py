"""A reply's trace apart from its answer: text between <think> and </think>, found in texts and among tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True, kw_only=True)
class ReasoningSplit:
    """A reply in its two parts."""

    reasoning: str | None
    """Without its marks and the space around it; None where there is no trace."""

    answer_at: int
    """The first character of the answer; the length of the reply where it was cut off before one."""

    answer_end: int | None = None
    """Where the answer ends; None: at the end of the reply."""


def split(reply: str, *, opened: bool | None = False) -> ReasoningSplit:
    """Return where the trace at the beginning of a reply ends.

    `opened` is True where the prompt already ends with the opening mark, and None where that is not known: then
    whatever stands before a closing mark is a trace. Space between a trace and its answer belongs to neither. A trace
    that was cut off before its closing mark has no answer.
    """
    begun = reply.lstrip()
    start = len(reply) - len(begun) + len(OPEN) if begun.startswith(OPEN) else 0
    if not start and opened is False:
        return ReasoningSplit(reasoning=None, answer_at=0)
    end = reply.find(CLOSE, start)
    if end < 0:
        known = bool(start or opened)
        return ReasoningSplit(reasoning=reply[start:].strip() if known else None, answer_at=len(reply) if known else 0)
    rest = reply[end + len(CLOSE) :]
    return ReasoningSplit(reasoning=reply[start:end].strip(), answer_at=len(reply) - len(rest.lstrip()))


def answer_start(tokens: Sequence[str], answer_at: int) -> int:
    """Return the first token with a character of the answer in it, perhaps after the end of a mark. The tokens [L] are,
    put together, the reply; it is L where there is no answer."""
    if not answer_at:
        return 0
    end = 0
    for index, token in enumerate(tokens):
        end += len(token)
        if end > answer_at:
            return index
    return len(tokens)


def cut_off(reply: str, stop: Sequence[str]) -> str:
    """The reply up to the first of the texts that end it."""
    ends = [place for place in (reply.find(text) for text in stop) if place >= 0]
    return reply[: min(ends)] if ends else reply


class ReasoningStream:
    """A reply of which more and more is known: the parts are told as soon as no mark can change them any more. Each
    character is looked at a few times, however many pieces the reply comes in."""

    def __init__(self, *, opened: bool = False, stop: Sequence[str] = ()) -> None:
        self._opened = opened
        self._stop = stop
        self._marks = (OPEN, CLOSE, *stop)
        self._unsure = ""
        """The end of what has come, which may be the beginning of a mark."""

        self._space: list[str] = []
        """Space of which it is not known yet whether it belongs to a part."""

        self._place: Literal["beginning", "trace", "gap", "answer"] = "beginning"
        self._is_over = False
        self._told = [0, 0]
        """Characters of the trace and of the answer."""

    def add(self, text: str) -> tuple[str, str]:
        """Return what is new of the trace, and of the answer."""
        if self._is_over:
            return "", ""
        come = self._unsure + text
        whole = cut_off(come, self._stop)
        self._is_over = whole != come
        end = len(whole) - self._held_back(whole)
        sure, self._unsure = whole[:end], whole[end:]
        trace, answer = self._sorted(sure)
        self._told[0] += len(trace)
        self._told[1] += len(answer)
        return trace, answer

    def end(self, reasoning: str | None, answer: str) -> tuple[str, str]:
        """Return what is left, once the whole is known."""
        return (reasoning or "")[self._told[0] :], answer[self._told[1] :]

    def _sorted(self, text: str) -> tuple[str, str]:
        """What a text that follows adds to the trace, and to the answer. Marks are whole in it."""
        trace = ""
        if self._place == "beginning":
            self._space.append(text)
            if not text.strip():
                return "", ""
            text, self._space = "".join(self._space), []
            begun = text.lstrip()
            if begun.startswith(OPEN):
                self._place, text = "trace", begun[len(OPEN) :]
            else:
                self._place = "trace" if self._opened else "answer"
        if self._place == "trace":
            thought, closed, text = text.partition(CLOSE)
            trace = self._without_space_around(thought)
            if closed:
                self._place, self._space = "gap", []
        if self._place == "gap":
            text = text.lstrip()
            self._place = "answer" if text else "gap"
        return trace, text if self._place == "answer" else ""

    def _without_space_around(self, thought: str) -> str:
        """Space at the end of a trace is told when more of it comes, and at its beginning never."""
        if not thought.strip():
            self._space.append(thought)
            return ""
        thought = "".join((*self._space, thought)) if self._told[0] else thought.lstrip()
        kept = thought.rstrip()
        self._space = [thought[len(kept) :]]
        return kept

    def _held_back(self, whole: str) -> int:
        """Characters at the end that may be the beginning of a mark."""
        lengths = (length for mark in self._marks for length in range(1, len(mark)) if whole.endswith(mark[:length]))
        return max(lengths, default=0)
