"""What is wrong in a file that somebody wrote, and where it stands."""

from collections.abc import Iterable
from dataclasses import dataclass

MOST_TOLD = 20
"""Mistakes that are put into words; of more it is only said how many there are."""


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a file, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """One sentence about one value."""

    text: str
    place: str = ""
    """The keys that lead to the value, with dots between them."""

    mark: Mark | None = None

    @property
    def words(self) -> str:
        place = self.place.replace("\n", "\\n").replace("\r", "\\r")  # a key may be a line end
        return ": ".join(str(part) for part in (self.mark, place, self.text) if part)


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """Mistakes as they come in the file, each once, however often aliases repeat it; those without a mark last."""
    known = {(one.mark or one.place, one.text): one for one in reversed(list(mistakes))}
    return sorted(known.values(), key=lambda one: (one.mark is None, one.mark or Mark(0, 0)))


def told(mistakes: Iterable[Mistake], *, beside: int = 0) -> list[str]:
    """Mistakes as sentences; of very many the first ones. There are so many `beside` these."""
    words = [mistake.words for mistake in mistakes]
    more = max(0, len(words) - MOST_TOLD) + beside
    return [*words[:MOST_TOLD], f"and {more:,} more"] if more > 0 else words
