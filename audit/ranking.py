"""Rows ranked by a score: sorted once, and read by every metric that looks at ranks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uncertainty.checks import Array, finite, one_of

Ties = Literal["mean", "stable"]
"""What a tied row carries: the mean of its tie group, or its own value in order of row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """The order of `n` rows by one score, ascending, and where its `g` groups of tied rows begin."""

    order: NDArray[np.intp]
    """[n], rows; those that tie stay in the order in which they came."""

    starts: NDArray[np.intp]
    """[g], places in `order`."""

    @classmethod
    def by(cls, name: str, scores: "Any | Ranking") -> "Ranking":
        """Rank `scores` [n], finite numbers named `name` in messages. A ranking is returned as it is."""
        return scores if isinstance(scores, Ranking) else cls._sorted(finite(name, scores))

    @classmethod
    def _sorted(cls, scores: Array) -> "Ranking":
        n = len(scores)
        order = np.argsort(scores)  # not stable, and several times faster than the stable kind
        starts, group = _groups(scores[order])
        if len(starts) < n:  # inside each tie group, sort the rows: whole numbers sort faster than pairs
            keys = group * n
            order += keys
            order.sort()
            order -= keys
        return cls(order=order, starts=starts)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def has_ties(self) -> bool:
        return len(self.starts) < len(self.order)

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """[g], the place after the last row of each group."""
        return np.append(self.starts[1:], len(self))

    @property
    def sizes(self) -> NDArray[np.intp]:
        """[g], rows in each group."""
        return self.ends - self.starts

    def ranked(self, values: Array, *, ties: Ties = "mean") -> Array:
        """Return [n]: `values` in this order, each tied row with the mean of its group or its own."""
        one_of("ties", ties, ("mean", "stable"))
        ranked = values[self.order]
        if ties == "stable" or not self.has_ties:
            return ranked
        return np.repeat(np.add.reduceat(ranked, self.starts) / self.sizes, self.sizes)

    def totals(self, values: Array) -> Array:
        """Return [g]: the sum of `values` over each group."""
        ranked = values[self.order]
        return np.add.reduceat(ranked, self.starts) if self.has_ties else ranked

    def prefix_means(self, values: Array, *, ties: Ties = "mean") -> Array:
        """Return [n]: the mean of `values` over the first k rows, k = 1..n."""
        return running_means(self.ranked(values, ties=ties))

    def centred_ranks(self) -> Array:
        """Return [n], by row: the average rank less the mean of all ranks, (n+1)/2."""
        ranks = np.empty(len(self))
        middle = (self.starts + self.ends - len(self)) / 2
        ranks[self.order] = np.repeat(middle, self.sizes) if self.has_ties else middle
        return ranks


def running_means(values: Array) -> Array:
    """Return [n]: the mean of the first k values, k = 1..n."""
    means = np.cumsum(values)
    means /= np.arange(1, len(values) + 1)
    return means


def _groups(ascending: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each run of equal values begins, and [n] the number of the run."""
    first = np.empty(len(ascending), dtype=bool)
    first[0] = True
    np.not_equal(ascending[1:], ascending[:-1], out=first[1:])
    return np.flatnonzero(first), np.cumsum(first, dtype=np.intp)
