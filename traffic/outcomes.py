"""Which of several outcomes of one record counts: the rule, for SQL and for rows in memory."""

from collections.abc import Sequence
from unicodedata import normalize

from demur.traffic.record import Outcome

REVIEW = "review"
"""The source of what the reviewers of this service say. Nobody else's word may look like it."""

UNSEEN_LETTERS = frozenset("\u115f\u1160")
"""Fillers of Hangul, which count as letters; others become one of these by normalisation."""

LOOK_ALIKES = {
    ord(other): letter
    for letter, others in {
        "r": "\u0433\u1d26\u0280\uab47\uab48\u16b1",
        "e": "\u0435\u04bd\u04bf\u03b5\u212e\uab32\u0190\u025b\u0454\u0511",
        "v": "\u03bd\u0475\u05d8\u1d20\uaba9\u2228\u22c1",
        "i": "\u0456\u03b9\u0131\u0269\u026a\u04cf\u02db\u037a\uab75\u1fbe",
        "w": "\u051d\u0461\u03c9\u026f\u1d21\uab83\u0448",
    }.items()
    for other in others
}
"""Letters of other scripts that look like one of `REVIEW`, after case folding (those of Unicode's table of confusables
and some that only resemble it)."""

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
    """Whether a source reads like `REVIEW`, whatever its case, width, marks, stops, blanks, invisible characters, and
    letters of other scripts."""
    letters = normalize("NFKD", normalize("NFKD", source).casefold()).translate(LOOK_ALIKES)
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
