"""What several opinions about one case come to: more than half of them decide, else an adjudicator (METHODS 9.6)."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from demur.traffic.record import Answer


class InvalidOpinions(ValueError):
    """An opinion is no label, or no number of opinions was asked for. The message says which."""


class Agreement(StrEnum):
    WAITING = "waiting"  # fewer opinions than wanted
    AGREED = "agreed"  # all said the same
    MAJORITY = "majority"  # more than half said the same
    SPLIT = "split"  # none was said by more than half: an adjudicator decides
    ADJUDICATED = "adjudicated"  # an adjudicator has decided


@dataclass(frozen=True, kw_only=True, slots=True)
class Adjudication:
    """Where a case stands."""

    status: Agreement
    verdict: Answer | None
    """The label that holds, None while none does."""

    n_votes: int
    """How many gave a label. The adjudicator does not count."""


def adjudicate(verdicts: Sequence[Answer | None], minimum: int = 2, adjudicator: Answer | None = None) -> Adjudication:
    """Return what the opinions come to: one label each, or one set of labels; None of who could not tell.

    At least `minimum` labels are wanted. A plurality or one half is no majority, and an adjudicator's label decides
    whatever the others said. Sets are the same if they hold the same labels, in whatever order.
    """
    if isinstance(minimum, bool) or not isinstance(minimum, int) or minimum < 1:
        raise InvalidOpinions(f"minimum is {minimum!r}, not a whole number from 1 on")
    if not isinstance(verdicts, list | tuple):
        raise InvalidOpinions(f"verdicts is {verdicts!r}, not a list of opinions")
    said = [verdict for verdict in verdicts if verdict is not None]
    votes = Counter(_told_apart(verdict) for verdict in said)
    if adjudicator is not None:
        _told_apart(adjudicator)
        return Adjudication(status=Agreement.ADJUDICATED, verdict=adjudicator, n_votes=len(said))
    if len(said) < minimum:
        return Adjudication(status=Agreement.WAITING, verdict=None, n_votes=len(said))
    most, count = votes.most_common(1)[0]
    if 2 * count <= len(said):
        return Adjudication(status=Agreement.SPLIT, verdict=None, n_votes=len(said))
    return Adjudication(
        status=Agreement.AGREED if count == len(said) else Agreement.MAJORITY,
        verdict=next(verdict for verdict in said if _told_apart(verdict) == most),
        n_votes=len(said),
    )


def _told_apart(verdict: Answer) -> Hashable:
    """Return a key that is equal for opinions that say the same."""
    if isinstance(verdict, str) and verdict:
        return verdict
    if isinstance(verdict, list) and all(isinstance(label, str) and label for label in verdict):
        return frozenset(verdict)
    raise InvalidOpinions(f"{verdict!r} is neither a label nor a list of labels")
