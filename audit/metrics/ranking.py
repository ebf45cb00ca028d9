"""Rows ranked by a score: sorted once, and read by every metric that looks at ranks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, Mask, finite, one_of

Ties = Literal["mean", "stable"]
"""What a tied row carries: the mean of its tie group, or its own value in order of row."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ranking:
    """The order of `n` rows by one score, ascending, and where its `g` groups of tied rows begin."""

    order: NDArray[np.intp]
    """[n], rows; those that tie stay in the order in which they came."""

    first: Mask
    """[n], by place in `order`: True where a row does not tie with the one before."""

    @classmethod
    def by(cls, name: str, scores: "Any | Ranking") -> "Ranking":
        """Rank `scores` [n], finite numbers named `name` in messages. A ranking is returned as it is."""
        return scores if isinstance(scores, Ranking) else cls._sorted(finite(name, scores))

    @classmethod
    def _sorted(cls, scores: Array) -> "Ranking":
        n = len(scores)
        order = np.argsort(scores)  # not stable, and several times faster than the stable kind
        ranked = scores[order]
        first = np.ones(n, dtype=bool)
        np.not_equal(ranked[1:], ranked[:-1], out=first[1:])
        if not first.all():  # inside each tie group, sort the rows: whole numbers sort faster than pairs
            group = np.cumsum(first, dtype=np.intp)
            group *= n
            order += group
            order.sort()
            order -= group
        return cls(order=order, first=first)

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def has_ties(self) -> bool:
        return not self.first.all()

    @cached_property
    def starts(self) -> NDArray[np.intp]:
        """[g], the place in `order` where each group begins."""
        return np.flatnonzero(self.first)

    @cached_property
    def ends(self) -> NDArray[np.intp]:
        """[g], the place after the last row of each group."""
        return np.append(self.starts[1:], len(self))

    def ranked(self, values: Array, *, ties: Ties = "mean") -> Array:
        """Return [n]: `values` in this order, each tied row with the mean of its group or its own."""
        one_of("ties", ties, ("mean", "stable"))
        ranked = values[self.order]
        return ranked if ties == "stable" else self.means_of_places(ranked)

    def sums(self, values: Array) -> Array:
        """Return [g]: the sum of `values` [n] over the rows of each group."""
        return np.add.reduceat(values[self.order], self.starts) if self.has_ties else values[self.order]

    def means_of_places(self, values: Array) -> Array:
        """Return [n]: `values` by place in `order`, each place with the mean of those that tie with it."""
        if not self.has_ties:
            return values
        sizes = self.ends - self.starts
        return np.repeat(np.add.reduceat(values, self.starts) / sizes, sizes)

    def running_counts(self, marked: Mask) -> NDArray[np.intp]:
        """Return [g]: how many rows are marked, of those up to the end of each group."""
        counts = np.cumsum(marked[self.order], dtype=np.intp)
        return counts[self.ends - 1] if self.has_ties else counts

    def prefix_means(self, values: Array, *, ties: Ties = "mean") -> Array:
        """Return [n]: the mean of `values` over the first k rows, k = 1..n."""
        return running_means(self.ranked(values, ties=ties))

    def ranks(self) -> Array:
        """Return [n], by place in `order`: the average rank less the mean of all ranks, (n+1)/2."""
        middle = (self.starts + self.ends - len(self)) / 2
        return np.repeat(middle, self.ends - self.starts) if self.has_ties else middle


def inner(a: NDArray[Any], b: Array) -> float:
    """Return the sum of products of two arrays [n], on one thread: BLAS would wait for cores that others use."""
    return float(np.einsum("i,i", a, b))


def running_means(values: Array) -> Array:
    """Return [n]: the mean of the first k values, k = 1..n."""
    means = np.cumsum(values)
    means /= np.arange(1, len(values) + 1)
    return means
