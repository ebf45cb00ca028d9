"""How much thinner the data is around an embedding than around its neighbours (Breunig et al. 2000)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, InvalidInput, finite, whole_number
from demur.uncertainty.distances import row_distances
from demur.uncertainty.output import LabelledOutput, Need, Output

QUERIES_AT_A_TIME = 256
"""Distances of this many rows to all fitted ones are in memory at the same time."""


@dataclass(frozen=True, kw_only=True)
class OutlierFactor:
    """Density of the fitted points around the neighbours of a point over that around the point itself.

    About 1 for a point like the others, larger for a stranger one. The point is not one of the fitted ones.
    """

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    points: Array
    """[N, d], the fitted embeddings."""

    reach: Array
    """[N], distance of each point to its k-th nearest other one."""

    density: Array
    """[N], local reachability density of each point."""

    k: int

    def of(self, output: Output) -> Array:
        return self.factor(output.needed("embedding"))

    def factor(self, features: Any) -> Array:
        """[n] for `features` [n, d]."""
        rows = finite("features", features, ndim=2)
        if rows.shape[1] != self.points.shape[1]:
            raise InvalidInput(f"features have {rows.shape[1]} dimensions; {self.points.shape[1]} were fitted")
        return np.concatenate(
            [self._factor(rows[start : start + QUERIES_AT_A_TIME]) for start in range(0, len(rows), QUERIES_AT_A_TIME)]
        )

    def _factor(self, rows: Array) -> Array:
        near, distances = _nearest(row_distances(rows, self.points), self.k)
        return np.asarray(self.density[near].mean(axis=1) / _density(self.reach[near], distances))


@dataclass(frozen=True, kw_only=True)
class LocalOutlierFactor:
    """The score as it is configured."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    k: int = 20
    """Neighbours that are looked at; at most all others."""

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)

    def fit(self, rows: LabelledOutput, quality: Array) -> OutlierFactor:  # noqa: ARG002 - labels play no part
        return fit_local_outlier_factor(rows.output.needed("embedding"), k=self.k)


def fit_local_outlier_factor(features: Any, *, k: int = 20) -> OutlierFactor:
    """Keep `features` [N, d], N >= 2, with the reach and the density of each among the others.

    Exactly k neighbours count, ties going to the lowest index, where Breunig et al. keep all that tie. scikit-learn
    takes tied neighbours in no fixed order, and gets its distances from inner products, which costs half the digits.
    """
    points = finite("train_features", features, ndim=2)
    whole_number("k", k, least=1)
    if len(points) < 2:
        raise InvalidInput("a local outlier factor needs at least 2 fitted rows")
    k = min(k, len(points) - 1)
    near = np.empty((len(points), k), dtype=np.intp)
    distances = np.empty((len(points), k))
    for start in range(0, len(points), QUERIES_AT_A_TIME):
        block = slice(start, min(start + QUERIES_AT_A_TIME, len(points)))
        to_all = row_distances(points[block], points)
        to_all[np.arange(len(to_all)), np.arange(block.start, block.stop)] = np.inf  # not a neighbour of itself
        near[block], distances[block] = _nearest(to_all, k)
    reach = distances[:, -1]
    return OutlierFactor(points=points, reach=reach, density=_density(reach[near], distances), k=k)


def _nearest(distances: Array, k: int) -> tuple[NDArray[np.intp], Array]:
    """Indices and distances [n, k] of the k nearest of [n, N], nearest first, ties by the lowest index."""
    limit = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    near = np.empty((len(distances), k), dtype=np.intp)
    for row, (values, most) in enumerate(zip(distances, limit, strict=True)):
        candidates = np.flatnonzero(values <= most)  # k of them, or more with ties
        near[row] = candidates[np.argsort(values[candidates], kind="stable")[:k]]
    return near, np.take_along_axis(distances, near, axis=1)


def _density(reach: Array, distances: Array) -> Array:
    return np.asarray(1 / (np.maximum(reach, distances).mean(axis=1) + 1e-10))
