"""Labels above labels: where one holds, all above it hold, and none of those is less probable (MADE, section 2)."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, InvalidInput, same_length, whole_number

Values = TypeVar("Values", bound=NDArray[Any])

BLOCK = 16
"""Rows that are closed together: their copies stay in the cache, where 10,000 labels of many rows would not."""

Level = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]
"""Lower labels sorted by parent, where those of each parent begin, and the parents."""


@dataclass(frozen=True, kw_only=True, eq=False)  # arrays have no single answer to ==
class LabelTree:
    """Which of `width` labels lies right above which. A label may have several parents; none is above itself."""

    width: int
    children: Array
    """[E], the lower label of each link, by its index. Floats, as everything in an artifact is."""

    parents: Array
    """[E], the upper one."""

    def __post_init__(self) -> None:
        whole_number("width", self.width, least=1)
        same_length(children=self.children, parents=self.parents)
        links = np.stack([self.children, self.parents])
        if links.size and not (links.min() >= 0 and links.max() < self.width and (links == np.round(links)).all()):
            raise InvalidInput(f"a link of the label tree is not between two of its {self.width} labels")
        _ = self._heights  # raises where links go round in a circle

    @property
    def roots(self) -> int:
        """How many labels have none above them."""
        return self.width - len(np.unique(self.links[0]))

    @property
    def depth(self) -> int:
        """How many labels the longest way from a root down passes; 1 where there are no links."""
        return int(self._heights.max()) + 1

    @property
    def sha256(self) -> str:
        """A name for the links: the same in whatever order they were given."""
        links = np.unique(np.stack(self.links, axis=1), axis=0)
        return hashlib.sha256(f"{self.width} {links.tolist()}".encode()).hexdigest()

    @property
    def links(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Lower and upper label of each link."""
        return self.children.astype(np.intp), self.parents.astype(np.intp)

    def closed(self, values: Values) -> Values:
        """Return `values` [..., L] with each raised to the largest at or below its label.

        Of probabilities or logits this leaves none below those under it; of a mask it brings all ancestors of what is
        True. NaN rises too.
        """
        if values.ndim < 1 or values.shape[-1] != self.width:
            raise InvalidInput(f"values has shape {values.shape}; the label tree has {self.width} labels")
        risen = values.copy(order="C")
        self._raise(risen.reshape(-1, self.width))
        return risen

    def over_outputs(self, logits: Array) -> Array:
        """Return closed logits [..., L] of a model whose outputs [..., M] are the first M labels.

        The sigmoid keeps the order, so the probabilities of these are the closed ones. A label that the model has no
        output for is as probable as the most probable one below it.
        """
        lacking = self.width - logits.shape[-1]
        if lacking < 0:
            raise InvalidInput(f"logits has shape {logits.shape}; the label tree has {self.width} labels")
        risen = np.full((*logits.shape[:-1], self.width), -np.inf)
        risen[..., : logits.shape[-1]] = logits
        self._raise(risen.reshape(-1, self.width))
        return risen

    def _raise(self, rows: NDArray[Any]) -> None:
        """Close `rows` [n, L] where they are."""
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            for below, starts, above in self._levels:
                highest = np.maximum.reduceat(block[:, below], starts, axis=1)
                block[:, above] = np.maximum(block[:, above], highest)

    @cached_property
    def _heights(self) -> NDArray[np.intp]:
        """[L], how many links the longest way down from each label has."""
        below, above = self.links
        heights = np.zeros(self.width, dtype=np.intp)
        for _ in range(self.width):
            risen = heights.copy()
            np.maximum.at(risen, above, heights[below] + 1)
            if (risen == heights).all():
                return heights
            heights = risen
        raise InvalidInput("the label tree goes round in a circle")

    @cached_property
    def _levels(self) -> list[Level]:
        """The parents that are to be raised, the lowest first: what is below one is done before it."""
        below, above = self.links
        height = self._heights[above]
        levels = []
        for level in range(1, self.depth):
            here = np.flatnonzero(height == level)
            here = here[np.argsort(above[here], kind="stable")]
            parents, starts = np.unique(above[here], return_index=True)
            levels.append((below[here], starts, parents))
        return levels
