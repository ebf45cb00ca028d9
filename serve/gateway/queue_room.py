"""Whether the review queue has room for one more case, as far as one gateway knows."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from demur.review.load import open_cases
from demur.traffic.database import Database, DatabaseUnavailable

log = logging.getLogger("demur.queue")

COUNTED_BEYOND = 2
"""Open cases are counted up to so many times the limit: spot checks go on when it is reached."""

PATIENCE_SECONDS = 10.0
"""After so long without a count it is logged that there is none."""


@dataclass
class Places:
    """The cases of some records on their way to the database."""

    taken: int = 0
    lost: int = 0
    """Those of which it is known that they were not written."""


class QueueRoom:
    """How many cases are open: those of the last count, and what this gateway has put there since.

    A case counts from the moment at which it is decided that there will be one. So one gateway alone never goes
    beyond the limit, and without counts it can only be too careful; of what others add, it knows with the next count.
    """

    def __init__(self, most: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.most = most
        self._clock = clock
        self._counted_at: float | None = None
        self._silence_is_told = False
        self._was_full = False
        self._taken = self._lost = self._written = 0  # of this gateway, ever
        self._count = (0, 0)
        """Open cases that were counted, and what `_written` was just before: these are among them for certain."""

    @property
    def open(self) -> int:
        counted, among_them = self._count
        return counted + self._taken - self._lost - among_them

    @property
    def full(self) -> bool:
        return self.most is not None and self.open >= self.most

    @property
    def why_none(self) -> str:
        """Why what would be held is not; empty while there is room."""
        if not self.full:
            return ""
        return f"the review queue is full: {self.open:,} cases wait, at most {self.most:,} may (review.most_waiting)"

    @contextmanager
    def places(self) -> Iterator[Places]:
        """For as long as cases are on their way. What is not known to be lost when that ends is taken for written: if
        it was not, the next count tells."""
        places = Places()
        try:
            yield places
        finally:
            self._lost += places.lost
            self._written += places.taken - places.lost

    def take(self, places: Places) -> None:
        """Note that there will be one more case."""
        self._taken += 1
        places.taken += 1

    def count(self, database: Database) -> None:
        """Count the open cases anew. Where that is impossible the last count stands; the first one must succeed, or
        it raises `DatabaseUnavailable`."""
        if self.most is None:
            return
        written = self._written
        try:
            with database.transaction() as connection:
                counted = open_cases(connection, at_most=COUNTED_BEYOND * self.most)
        except DatabaseUnavailable as error:
            if self._counted_at is None:
                raise
            self._tell_of_silence(self._clock() - self._counted_at, str(error))
            return
        self._count = (counted, written)
        self._counted_at, self._silence_is_told = self._clock(), False
        self._tell_of_change()

    def _tell_of_silence(self, silent: float, why: str) -> None:
        if silent > PATIENCE_SECONDS and not self._silence_is_told:
            log.error("open cases could not be counted for %.0f s, and those of before stand: %s", silent, why)
            self._silence_is_told = True

    def _tell_of_change(self) -> None:
        if self.full != self._was_full:
            self._was_full = self.full
            if self.full:
                log.warning("%s; what would be held is given as `abstain`", self.why_none)
            else:
                log.warning("the review queue has room again: %d cases wait", self.open)
