"""What the engine told of the tokens of many replies, joined, so that a formula over all of them takes one call."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array
from demur.uncertainty.generation import Replies
from demur.uncertainty.token_spans import TokenSpans

Told = TypeVar("Told")


class Answers:
    """The answers of `n` rows' first replies, or with `whole` also the reasoning before them. Rows that share a first
    reply, as the possible completions of samples do, are counted once."""

    def __init__(self, rows: Sequence[Replies | None], *, whole: bool = False) -> None:
        self._rows = rows
        self._whole = whole

    def of_logprobs(self, formula: Callable[[TokenSpans], Array]) -> Array:
        """[n], a formula over the log-probabilities of the tokens; NaN where they are not known, or are none."""
        place, spans = self._logprobs
        return self._by_row(place, None if spans is None else formula(spans))

    def of_alternatives(self, formula: Callable[[Sequence[Sequence[Array]]], Array]) -> Array:
        """[n], a formula over the log-probabilities of the alternatives of each token, given answer by answer."""
        place, told = self._joined(lambda replies: replies.top_logprobs(self._span(replies)))
        return self._by_row(place, formula(told) if told else None)

    @cached_property
    def _logprobs(self) -> "tuple[NDArray[np.intp], TokenSpans | None]":
        place, told = self._joined(lambda replies: replies.logprobs(self._span(replies)))
        return place, TokenSpans.of(told) if told else None

    def _span(self, replies: Replies) -> tuple[int, int] | None:
        return (0, len(replies.first.tokens)) if self._whole else None

    def _joined(self, told_of: Callable[[Replies], Told | None]) -> tuple[NDArray[np.intp], list[Told]]:
        """What is told of m replies, and for each row [n] where its reply is among them; -1 where nothing is told."""
        found: list[Told] = []
        places: list[int] = []
        before, place = None, -1
        for replies in self._rows:
            first = None if replies is None else replies.first
            if replies is None or first is not before:
                told = None if replies is None else told_of(replies)
                place = -1 if told is None else len(found)
                if told is not None:
                    found.append(told)
                before = first
            places.append(place)
        return np.array(places, dtype=np.intp), found

    def _by_row(self, place: NDArray[np.intp], values: Array | None) -> Array:
        if values is None:
            return np.full(len(self._rows), np.nan)
        if len(values) == len(self._rows):  # each has its own
            return values
        return np.append(values, np.nan)[place]  # the last one for -1
