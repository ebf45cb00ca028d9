"""What a reply is read as: a letter, or a label. What is not clear is not read, and never repaired."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from demur.serve.config.plain_text import WRAPPING, plain
from demur.serve.config.task import LETTERS
from demur.serve.hosts.language.matching import with_borders

TAKEN = "\2"
"""Stands where a name was found."""


EXPLICIT = re.compile(
    r"\b(?i:answer|option|choice|letter)\b(?:\s+(?i:is|would\s+be|must\s+be|should\s+be))?\s*+:?\s*+"
    r"(?i:option\s++|letter\s++)?"
    r"(?:[*_`\"']{0,3}(?P<open>[\[(])\s?(?P<inside>[A-Z])\s?[\])]|[*_`\"']{0,3}(?P<bare>[A-Z])(?![\w'’]))"
)
"""`The answer is C.`, `Answer: (C)`, `option C`."""

FIRST = re.compile(r"[\s*_`\"']{0,8}(?:[\[(]\s?(?P<inside>[A-Z])\s?[\])]|(?P<bare>[A-Z])[*_`\"']{0,3}\s?[.):\]](?!\w))")
"""`[C] 132`, `C) 132`, `C: 132`, at the beginning of a reply."""

BRACKETED = re.compile(r"\[([A-Z])\]|\(([A-Z])\)")

ALSO_WORDS = "AI"
"""Letters that are words as well: by themselves in a sentence they say nothing."""

GOES_ON = re.compile(r"\s*+(?:[.,;:!()\]*_`\"'\-\u2013\u2014\n]|$|(?i:because|since|as|for|with|and|given|due)\b)")
"""What may follow such a letter where it is meant as one."""


@dataclass(frozen=True, kw_only=True)
class TextFinding:
    """What was found in a reply."""

    index: int | None = None
    """Of the option or label; None where none was found."""

    why: str = ""
    """Why nothing was found."""

    settled: bool = False
    """Whether it was found to be unclear: nothing else may be tried on it."""


def letter_in(text: str, n: int) -> TextFinding:
    """Which of the first `n` letters a reply gives as its answer, by the ways in which answers are written.

    Two different letters are no answer, and the word `A` in a sentence is no letter.
    """
    letters = LETTERS[:n]
    alone = text.strip(WRAPPING)
    if len(alone) == 1 and alone.upper() in letters:
        return TextFinding(index=letters.index(alone.upper()))
    claimed = {
        found["inside"] or found["bare"]
        for found in EXPLICIT.finditer(text)
        if found["inside"] or found["bare"] not in ALSO_WORDS or GOES_ON.match(text, found.end())
    }
    first = FIRST.match(text)
    if first:
        claimed.add(first["inside"] or first["bare"])
    if first or not claimed:
        brackets = {one or other for one, other in BRACKETED.findall(text)}
        explicit = claimed - ({first["inside"] or first["bare"]} if first else set())
        claimed = claimed if explicit else claimed | brackets
    claimed &= set(letters)
    if len(claimed) > 1:
        return TextFinding(why=f"the reply names several options: {', '.join(sorted(claimed))}", settled=True)
    if not claimed:
        return TextFinding(why="the reply names no option")
    return TextFinding(index=letters.index(claimed.pop()))


class Names:
    """Names that a reply may give: of labels, or the options' own texts."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._exact = {name: index for index, name in enumerate(self.names)}
        self._plain: dict[str, int | None] = {}
        for index, name in enumerate(self.names):
            for form in {plain(name), plain(name.strip(WRAPPING))} - {""}:
                self._plain[form] = None if form in self._plain else index

    def whole(self, text: str) -> int | None:
        """The name that the whole text is, whatever its case and what stands around it."""
        stripped = text.strip()
        if stripped in self._exact:
            return self._exact[stripped]
        found = self._plain.get(plain(stripped))
        return self._plain.get(plain(stripped.strip(WRAPPING))) if found is None else found

    def within(self, text: str) -> TextFinding:
        """The only name that occurs in a text as a word, or as words; of names within names the longest counts."""
        said = plain(text)
        left, found = with_borders(said), set()
        for form in self._forms:
            if form in said and (words := with_borders(form)) in left:
                left = left.replace(words, TAKEN)  # so that no name within it is found any more
                if (index := self._plain[form]) is not None:
                    found.add(index)
        if len(found) > 1:
            several = ", ".join(repr(self.names[index]) for index in sorted(found)[:5])
            return TextFinding(why=f"the reply names several of them: {several}")
        return TextFinding(index=found.pop()) if found else TextFinding(why="the reply names none of them")

    def read(self, text: str) -> TextFinding:
        """The name that a reply gives: all of it first, then the only one in it."""
        whole = self.whole(text)
        return self.within(text) if whole is None else TextFinding(index=whole)

    @cached_property
    def _forms(self) -> list[str]:
        """The names as they are looked for, the longest first."""
        return sorted({plain(name) for name in self.names} - {""}, key=lambda form: (-len(form), form))
