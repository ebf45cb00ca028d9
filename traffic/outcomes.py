"""Which of several outcomes of one record counts: the rule, for SQL and for rows in memory."""

from collections.abc import Sequence
from unicodedata import normalize

from demur.traffic.record import Outcome

REVIEW = "review"
"""The source of what the reviewers of this service say. Nobody else's word may look like it."""

UNSEEN_LETTERS = frozenset("\u115f\u1160")
"""Fillers of Hangul, which count as letters; others become one of these by normalisation."""

Precedence = tuple[str, ...]
"""Sources of outcomes: those of one named earlier count before those of one named later, and those of sources that are
not named come last. Among equals the latest counts."""

LATEST: Precedence = ()
"""No source comes before another."""

BEST_FIRST = "array_position(%(precedence)s::text[], outcomes.source) nulls last, outcomes.id desc"
"""Order of `outcomes` rows that puts the one that counts first; takes the parameter `precedence`, made by `listed`."""

THE_ONE_OF_R = f"(select label, source, id from outcomes where record_id = r.id order by {BEST_FIRST} limit 1)"
"""The outcome that counts of the record `r`, to be joined laterally; takes the parameter `precedence`."""


def reads_as_review(source: str) -> bool:
    """Whether a source reads like `REVIEW`, whatever its case, width, marks, stops, blanks and invisible characters."""
    letters = normalize("NFKD", normalize("NFKD", source).casefold())
    return "".join(one for one in letters if one.isalnum() and one not in UNSEEN_LETTERS) == REVIEW


def listed(precedence: Precedence) -> list[str]:
    """The parameter `precedence` of the SQL above."""
    return list(precedence)


def position_that_counts(outcomes: Sequence[Outcome], precedence: Precedence) -> int | None:
    """Where the one that counts stands among all outcomes of a record, oldest first; None where there is none."""
    ranks = {source: rank for rank, source in reversed(list(enumerate(precedence)))}
    positions = range(len(outcomes))
    return min(positions, key=lambda at: (ranks.get(outcomes[at].source, len(precedence)), -at), default=None)


def rule_in_words(precedence: Precedence) -> str:
    if not precedence:
        return "the latest"
    return f"{', then '.join(precedence)}, then any other source; among equals the latest"
