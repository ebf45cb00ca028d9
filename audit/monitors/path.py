"""A line through time for a picture, kept short: when it has too many points, every second one goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Self

MOST = 400


@dataclass(frozen=True, kw_only=True)
class Path:
    """Values after so many steps. Which points are kept hangs on the steps alone, not on the portions they came in."""

    every: int = 1
    """So many steps lie between two points."""

    steps: tuple[int, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()

    def extended(self, first: int, values: Sequence[tuple[float, ...]]) -> Self:
        """The line after the steps `first`, `first` + 1, ..., with their values."""
        points = [*zip(self.steps, self.values, strict=True), *enumerate(values, start=first)]
        every = self.every
        kept = [point for point in points if point[0] % every == 0]
        while len(kept) > MOST:
            every *= 2
            kept = [point for point in kept if point[0] % every == 0]
        return type(self)(every=every, steps=tuple(s for s, _ in kept), values=tuple(v for _, v in kept))

    def as_json(self) -> dict[str, Any]:
        values = [[None if isnan(one) else one for one in value] for value in self.values]
        return {"every": self.every, "steps": self.steps, "values": values}


def path_from_json(document: dict[str, Any]) -> Path:
    return Path(
        every=document["every"],
        steps=tuple(document["steps"]),
        values=tuple(tuple(nan if one is None else one for one in value) for value in document["values"]),
    )
