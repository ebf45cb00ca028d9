"""What changed between two texts, word by word, for people to read."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

MOST_WORDS = 4_000
"""Words and signs of both texts together that are compared one by one; longer texts are compared by lines."""

MOST_LINES = 4_000

AROUND = 300
"""Characters of what did not change that are shown beside a change, in texts of more than `LONG` characters."""

LONG = 3_000


class DiffPart(NamedTuple):
    """A piece of the comparison: in both texts, left out of the first, or put in by the second."""

    kind: Literal["same", "out", "in", "skipped"]
    text: str
    """The text of the piece; where it is skipped, how many characters that is."""


def text_diff(before: str, after: str) -> list[DiffPart]:
    """Return the way from one text to the other, in turn. What is left out stands before what is put in. Without the
    parts that are put in it is the first text, and without those left out the second, but for what is skipped."""
    old, new = _words(before), _words(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    middle = [words[head : len(words) - tail] for words in (old, new)]
    if sum(map(len, middle)) > MOST_WORDS:
        middle = ["".join(words).splitlines(keepends=True) for words in middle]
    if sum(map(len, middle)) > MOST_LINES:
        middle = [["".join(lines)] for lines in middle]
    begin, end = "".join(old[:head]), "".join(old[len(old) - tail :])
    parts = [DiffPart("same", begin), *_compared(*middle), DiffPart("same", end)]
    parts = [part for part in parts if part.text]
    return _shortened(parts) if len(before) + len(after) > LONG else parts


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many words at the beginning are the same."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _compared(old: Sequence[str], new: Sequence[str]) -> Iterator[DiffPart]:
    for what, start, stop, begin, end in SequenceMatcher(None, old, new).get_opcodes():
        if what == "equal":
            yield DiffPart("same", "".join(old[start:stop]))
            continue
        if stop > start:
            yield DiffPart("out", "".join(old[start:stop]))
        if end > begin:
            yield DiffPart("in", "".join(new[begin:end]))


def _words(text: str) -> list[str]:
    """Words, the blanks between them, and every other character by itself: put together they are the text."""
    found: list[str] = []
    for kind, characters in groupby(text, key=_kind):
        run = list(characters)
        found += run if kind == "sign" else ["".join(run)]
    return found


def _kind(character: str) -> str:
    return "word" if character.isalnum() else "blank" if character.isspace() else "sign"


def _shortened(parts: Sequence[DiffPart]) -> list[DiffPart]:
    """Leave out the middle of long stretches that did not change, and say how much that was."""
    found = []
    for at, (kind, text) in enumerate(parts):
        head = AROUND if at else 0
        tail = AROUND if at < len(parts) - 1 else 0
        if kind != "same" or len(text) <= head + tail + AROUND:
            found.append(DiffPart(kind, text))
            continue
        skipped = len(text) - head - tail
        found += [DiffPart("same", text[:head])] if head else []
        found.append(DiffPart("skipped", f"{skipped:,} characters as they were"))
        found += [DiffPart("same", text[-tail:])] if tail else []
    return found
