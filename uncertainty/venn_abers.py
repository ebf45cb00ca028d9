"""Venn-Abers: two isotonic fits, one for each outcome that a row may have (Vovk & Petej 2014).

One of the two probabilities is perfectly calibrated for rows drawn like the fitted ones; which one is not known. Their
distance says how little is known. The two step functions are stored (Vovk et al. 2015), so that a row costs O(log n).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite, outcomes, same_length, where_known


@dataclass(frozen=True, kw_only=True, eq=False)
class VennAbersInterval:
    """Two probabilities of the outcome 1 for each row, and what to make of them."""

    p0: Array
    """[n], from the fit in which the row's own outcome is 0."""

    p1: Array
    """[n], from the fit in which it is 1; always above p0."""

    probability: Array
    """[n], p1 / (1 - p0 + p1): the smallest worst-case log loss. Never 0 or 1."""

    width: Array
    """[n], p1 - p0, in (0, 1]: higher where less is known."""


@dataclass(frozen=True, kw_only=True)
class VennAbersMap:
    """The step functions over the distinct fitted scores."""

    reads: ClassVar[str] = "score"

    knots: Array
    """[m], ascending."""

    low: Array
    """[m], p0 from a knot up to the next one; 0 before the first."""

    high: Array
    """[m], p1 after a knot up to and with the next one; 1 after the last."""

    def interval(self, scores: Any) -> VennAbersInterval:
        """Return p0 and p1 of `scores` [n], higher when 1 is more likely."""
        s = finite("scores", scores)
        p0 = np.append(0.0, self.low)[np.searchsorted(self.knots, s, side="right")]
        p1 = np.append(self.high, 1.0)[np.searchsorted(self.knots, s, side="left")]
        return VennAbersInterval(p0=p0, p1=p1, probability=p1 / (1 - p0 + p1), width=p1 - p0)

    def confidence(self, evidence: Array) -> Array:
        """Probability [n] of the outcome 1; NaN stays NaN."""
        return where_known(evidence, lambda known: self.interval(known).probability)


@dataclass(frozen=True, kw_only=True)
class VennAbers:
    """`venn_abers` as it is configured. It counts rows, and cannot weigh them."""

    reads: ClassVar[str] = "score"

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> VennAbersMap:
        """Raises where rows have unequal weights, as labelled traffic of which only a part was checked has."""
        if weights is not None and weights.min() < weights.max():
            raise InvalidInput(
                "the venn_abers calibrator counts rows, and these stand for unequal numbers of records; choose isotonic"
                " or platt"
            )
        return fit_venn_abers(evidence, target)


@dataclass(frozen=True, kw_only=True)
class VennAbersWidthScore:
    """How far apart the two probabilities of a row are, in (0, 1]: higher where less is known."""

    of_score: str
    map: VennAbersMap

    @property
    def sources(self) -> list[str]:
        return [self.of_score]

    def of(self, scores: Mapping[str, Array]) -> Array:
        return where_known(-scores[self.of_score], lambda known: self.map.interval(known).width)


@dataclass(frozen=True, kw_only=True)
class VennAbersWidth:
    """`venn_abers_width` of a listed score, as it is configured."""

    learns_from_right: ClassVar[bool] = True

    score: str = "softmax_response"

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.score,)

    def fit(self, scores: Mapping[str, Array], quality: Array) -> VennAbersWidthScore:
        u = scores[self.score]
        known = np.isfinite(u)
        if not known.any():
            raise InvalidInput(f"no row has {self.score}, so nothing can be fitted to it")
        return VennAbersWidthScore(of_score=self.score, map=fit_venn_abers(-u[known], quality[known]))


def fit_venn_abers(scores: Any, targets: Any) -> VennAbersMap:
    """Fit both step functions to 0/1 `targets` [n] by `scores` [n], higher when 1 is more likely.

    Equal scores are pooled. One outcome alone is enough, and so is one row.
    """
    s, y = finite("fit_scores", scores), outcomes("fit_targets", targets)
    same_length(fit_scores=s, fit_targets=y)
    knots, place = np.unique(s, return_inverse=True)
    n = np.bincount(place).astype(np.float64)
    ones = np.asarray(np.bincount(place, weights=y), dtype=np.float64)
    mirrored = _with_a_one(n[::-1], (n - ones)[::-1])
    return VennAbersMap(knots=knots, low=1 - mirrored[::-1], high=_with_a_one(n, ones))


def _with_a_one(n: Array, ones: Array) -> Array:
    """[m]: at each of m places of `n` rows with `ones`, the isotonic fit there with one more row of outcome 1.

    The fit is the slope of the largest convex curve below the cumulated points. Adding a row moves the points before
    the place by (-1, -1), so the corners of the curve are kept on a stack, from the place to the right.
    """
    x = np.concatenate([[-1.0, 0.0], np.cumsum(n)])
    y = np.concatenate([[-1.0, 0.0], np.cumsum(ones)])

    def turns_left(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
        return (b[0] - a[0]) * (c[1] - a[1]) > (b[1] - a[1]) * (c[0] - a[0])

    points = list(zip(x.tolist(), y.tolist(), strict=True))
    corners: list[tuple[float, float]] = []
    for point in points:
        while len(corners) > 1 and not turns_left(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    corners.reverse()  # the leftmost is on top
    found = np.empty(len(n))
    for i in range(len(n)):
        (left, low), (right, high) = corners[-1], corners[-2]
        found[i] = (high - low) / (right - left)
        before, here, after = points[i], points[i + 1], points[i + 2]
        moved = (before[0] + after[0] - here[0], before[1] + after[1] - here[1])
        points[i + 1] = moved
        if (moved[1] - low) * (right - left) >= (high - low) * (moved[0] - left):
            continue
        corners.pop()
        while len(corners) > 1 and not turns_left(moved, corners[-1], corners[-2]):
            corners.pop()
        corners.append(moved)
    return found
