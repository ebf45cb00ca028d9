"""What another artifact would have decided on logged traffic, beside what was decided then."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np

from demur.uncertainty.checks import InvalidInput, Mask, same_length


class NothingToReplay(ValueError):
    """No record in the range has an input that can be run again. Widen the range."""


@dataclass(frozen=True, kw_only=True)
class ReplaySide:
    """What came, or would have come, of the records."""

    answered: int
    held: int
    for_people: int
    """Held records that a person is asked about; the others are abstained from."""

    n_labelled: int
    """Answered records with an outcome."""

    risk: float
    """Share of these that was wrong (of label sets: mean loss of similarity); NaN without any."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Decisions on the same records, then and now."""

    n: int
    n_labelled: int
    """Records with an outcome, answered or held."""

    then: ReplaySide
    now: ReplaySide
    more_for_people: int
    """How many more cases people would get; below 0: fewer."""

    answered_to_held: int
    held_to_answered: int

    def as_json(self) -> dict[str, Any]:
        """The numbers, with None for what is undefined."""
        numbers = asdict(self)
        for side in ("then", "now"):
            if isnan(numbers[side]["risk"]):
                numbers[side]["risk"] = None
        return numbers


def replay(
    then: Sequence[str],
    now: Sequence[str],
    quality_then: Sequence[float | None],
    quality_now: Sequence[float | None],
) -> Replay:
    """Compare actions [n], of which everything but `answer` is held, and what the predictions were worth.

    Qualities [n] lie in [0, 1], None where no outcome is known. Risks are those of the labelled records as they are,
    and carry over to the others only if labels came irrespective of how the prediction turned out.
    """
    n = same_length(then=then, now=now, quality_then=quality_then, quality_now=quality_now)
    if n == 0:
        raise InvalidInput("there are no records to replay")
    before, after = (np.array([action == "answer" for action in actions], dtype=bool) for actions in (then, now))
    sides = _side(then, before, quality_then), _side(now, after, quality_now)
    return Replay(
        n=n,
        n_labelled=sum(worth is not None for worth in quality_now),
        then=sides[0],
        now=sides[1],
        more_for_people=sides[1].for_people - sides[0].for_people,
        answered_to_held=int((before & ~after).sum()),
        held_to_answered=int((~before & after).sum()),
    )


def _side(actions: Sequence[str], answered: Mask, quality: Sequence[float | None]) -> ReplaySide:
    worth = [value for value, sure in zip(quality, answered.tolist(), strict=True) if sure and value is not None]
    return ReplaySide(
        answered=int(answered.sum()),
        held=int((~answered).sum()),
        for_people=sum(action == "review" for action in actions),
        n_labelled=len(worth),
        risk=1 - float(np.mean(worth)) if worth else np.nan,
    )
