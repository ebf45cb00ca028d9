"""A cheap score that says for which rows a dear one is asked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, UnknownScore, fraction, real_number, snapped_floor


@dataclass(frozen=True, kw_only=True)
class ScoreCascade:
    """first - limit, which is at most 0, where the first score is within its limit, and the dear one elsewhere.

    So rows that the first is sure of rank before all that were asked further. NaN where the score that counts is
    unknown, or a dear one is below 0, which would rank it among the sure.
    """

    first: str
    then: str
    limit: float

    @property
    def sources(self) -> list[str]:
        return [self.first, self.then]

    def asks(self, first: Array) -> Array:
        """[n], True where the dear score is wanted, from the first one."""
        return np.asarray(first > self.limit)  # False for NaN: no dear score can mend that

    def of(self, scores: Mapping[str, Array]) -> Array:
        first, then = scores[self.first], scores[self.then]
        dear = np.where(then < 0, np.nan, then)
        with np.errstate(invalid="ignore"):
            sure = first - self.limit
        return np.where(first <= self.limit, sure, np.where(self.asks(first), dear, np.nan))


@dataclass(frozen=True, kw_only=True)
class Cascade:
    """`cascade`: the same as it is configured, with a `limit` that somebody chose, or one that sends at most a share
    `ask_share` of rows like the fitted ones on to the dear score; ties are not sent."""

    first: str
    then: str
    limit: float | None = None
    ask_share: float | None = None

    def __post_init__(self) -> None:
        if (self.limit is None) == (self.ask_share is None):
            raise InvalidInput("cascade takes either a `limit` of the first score or an `ask_share` of the rows")
        if self.first == self.then:
            raise InvalidInput("cascade: `first` and `then` are one score; name two")
        if self.limit is not None:
            real_number("limit", self.limit)
        if self.ask_share is not None:
            fraction("ask_share", self.ask_share, open_low=True, open_high=True)

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.first, self.then)

    @property
    def learns(self) -> bool:
        return self.limit is None

    def fit(self, scores: Mapping[str, Array], quality: Array) -> ScoreCascade:  # noqa: ARG002 - labels play no part
        """Rows whose first score is unknown have no part in it: they are held, and not asked further."""
        if self.limit is not None:
            return ScoreCascade(first=self.first, then=self.then, limit=float(self.limit))
        known = np.sort(scores[self.first][np.isfinite(scores[self.first])])
        if not len(known):
            raise UnknownScore(f"cascade: {self.first} is unknown in every row; choose another score to begin with")
        asked = snapped_floor((self.ask_share or 0.0) * len(known))
        return ScoreCascade(first=self.first, then=self.then, limit=float(known[len(known) - asked - 1]))
