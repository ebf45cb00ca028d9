"""Calibrated probabilities of the k most probable labels, where labels hold together (XMLC App. B).

Everything is [n, k]: the probabilities of a row's most probable labels, in descending order, and whether each holds.
With very many labels nothing as wide as the labels is ever made.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    memberships,
    one_of,
    outcomes,
    same_length,
    unit_interval,
)
from demur.uncertainty.isotonic import Interpolation, IsotonicMap, fit_isotonic
from demur.uncertainty.tally import per_row

Mode = Literal["joint", "separate"]

CHUNK = 1 << 22
"""Cells of a dense matrix that are looked at together, to keep what is copied small."""


@dataclass(frozen=True, kw_only=True)
class IsotonicMaps:
    """Several isotonic maps, one behind the other in arrays that an artifact can hold."""

    starts: Array
    """[M + 1], where the knots of each map begin; the last is the length of all. An empty map was not fitted."""

    knots: Array
    values: Array
    interpolation: str

    @classmethod
    def of(cls, maps: Sequence[IsotonicMap | None], interpolation: str) -> "IsotonicMaps":
        nothing = np.zeros(0)
        return cls(
            starts=np.cumsum([0, *(len(m.knots) if m else 0 for m in maps)]).astype(np.float64),
            knots=np.concatenate([nothing, *(m.knots for m in maps if m)]),
            values=np.concatenate([nothing, *(m.values for m in maps if m)]),
            interpolation=interpolation,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> IsotonicMap | None:
        here = slice(int(self.starts[index]), int(self.starts[index + 1]))
        if here.start == here.stop:
            return None
        return IsotonicMap(knots=self.knots[here], values=self.values[here], interpolation=self.interpolation)


@dataclass(frozen=True, kw_only=True)
class JointTopK:
    """One map for all k n pairs."""

    map: IsotonicMap

    def of(self, top: Array, labels: NDArray[np.intp] | None = None) -> Array:  # noqa: ARG002 - all labels alike
        """Calibrated probabilities, in the shape of `top`."""
        return self.map.confidence(top)


@dataclass(frozen=True, kw_only=True)
class SeparateTopK:
    """A map for each rank: one for the most probable label of a row, one for the second, and so on."""

    maps: IsotonicMaps

    def of(self, top: Array, labels: NDArray[np.intp] | None = None) -> Array:  # noqa: ARG002 - all labels alike
        k = top.shape[1]
        if k > len(self.maps):
            raise InvalidInput(f"{k} ranks are to be calibrated; {len(self.maps)} were fitted")
        by_rank = [self.maps[rank] for rank in range(k)]
        return np.stack([m.confidence(top[:, rank]) for rank, m in enumerate(by_rank) if m], axis=1)


@dataclass(frozen=True, kw_only=True)
class PerLabel:
    """A map for each label that there was enough data for; the joint map for the others."""

    joint: IsotonicMap
    maps: IsotonicMaps
    """One place for each label."""

    def of(self, top: Array, labels: NDArray[np.intp]) -> Array:
        """`labels` [n, k] says whose probabilities `top` [n, k] are."""
        calibrated = self.joint.confidence(top)
        for label in np.unique(labels):
            if own := self.maps[int(label)]:
                here = labels == label
                calibrated[here] = own.confidence(top[here])
        return calibrated


def top_labels(probabilities: Array, k: int) -> NDArray[np.intp]:
    """Return [n, k]: the k highest of each row of `probabilities` [n, L], highest first, ties to the lowest label."""
    if not 1 <= k <= probabilities.shape[1]:
        raise InvalidInput(f"k is {k}; there are {probabilities.shape[1]} labels")
    labels = np.concatenate([_highest(part, k) for part in _chunks(probabilities)])
    order = np.argsort(-np.take_along_axis(probabilities, labels, axis=1), axis=1, kind="stable")
    return np.take_along_axis(labels, order, axis=1)


def _highest(scores: Array, k: int) -> NDArray[np.intp]:
    """Return the k labels of the highest scores, labels ascending. A partition picks at random among labels that tie at
    rank k, so only its score of rank k is used."""
    n, width = scores.shape
    last = np.partition(scores, width - k, axis=1)[:, width - k, None]
    chosen = scores >= last
    crowded = np.flatnonzero(per_row(chosen) > k)  # more labels tie at rank k than there is room for
    if len(crowded):
        tied = scores[crowded] == last[crowded]
        room = k - (scores[crowded] > last[crowded]).sum(axis=1, keepdims=True)
        chosen[crowded] &= ~tied | (np.cumsum(tied, axis=1) <= room)
    return np.asarray(np.flatnonzero(chosen) % width).reshape(n, k)


def _chunks(scores: Array) -> Iterator[Array]:
    rows = max(1, CHUNK // scores.shape[1])
    return (scores[start : start + rows] for start in range(0, len(scores), rows))


def fit_top_k(
    probs: Any, hits: Any, *, mode: Mode = "joint", weights: Any = None, interpolation: Interpolation = "linear"
) -> JointTopK | SeparateTopK:
    """Fit isotonic maps on `probs` [n, k] and 0/1 `hits` [n, k], where each row counts by its weight [n].

    Joint maps keep the order of a row's labels but for ties, which their plateaus make: see `in_calibrated_order`.
    """
    p, y = _pairs("fit_probs", probs, "fit_hits", hits)
    one_of("mode", mode, ("joint", "separate"))
    if mode == "joint":
        w = None if weights is None else np.repeat(weights, p.shape[1])
        return JointTopK(map=fit_isotonic(p.ravel(), y.ravel(), weights=w, interpolation=interpolation))
    maps = [
        fit_isotonic(p[:, rank], y[:, rank], weights=weights, interpolation=interpolation) for rank in range(p.shape[1])
    ]
    return SeparateTopK(maps=IsotonicMaps.of(maps, interpolation))


def fit_per_label(
    probabilities: Array,
    truth: Mask,
    *,
    k: int,
    least: int = 30,
    weights: Array | None = None,
    interpolation: Interpolation = "linear",
) -> PerLabel:
    """Fit a map for each label that held, and did not hold, at least `least` times among `probabilities` [n, L].

    The joint map, for the others, is fitted on the k most probable labels of each row.
    """
    top = top_labels(probabilities, k)
    joint = fit_isotonic(
        np.take_along_axis(probabilities, top, axis=1).ravel(),
        np.take_along_axis(truth, top, axis=1).ravel(),
        weights=None if weights is None else np.repeat(weights, k),
        interpolation=interpolation,
    )
    held = truth.sum(axis=0)
    enough = (held >= least) & (len(truth) - held >= least)
    maps = [
        fit_isotonic(probabilities[:, label], truth[:, label], weights=weights, interpolation=interpolation)
        if fitted
        else None
        for label, fitted in enumerate(enough)
    ]
    return PerLabel(joint=joint, maps=IsotonicMaps.of(maps, interpolation))


def in_calibrated_order(calibrated: Array) -> NDArray[np.intp]:
    """Order [n, k] of a row's labels by calibrated probability; ties keep the order they came in.

    With the original order as tie-break a joint map leaves precision at k as it was (METHODS A9).
    """
    return np.argsort(-calibrated, axis=1, kind="stable")


def crossfit_isotonic(probs: Any, hits: Any, folds: Any, *, interpolation: Interpolation = "linear") -> Array:
    """Calibrate each fold of rows by a map that was fitted on the other folds; in the shape of `probs`.

    `probs` and `hits` are [n], or [n, k], whose k pairs of a row share its fold; `folds` [n] may be any names.
    """
    p, y = _pairs("probs", probs, "hits", hits, ndim=2 if _axes(probs) > 1 else 1)
    member = memberships("folds", folds)
    same_length(probs=p, folds=member)
    if member.max() == 0:
        raise InvalidInput("folds are all the same; at least 2 are needed")
    calibrated = np.empty_like(p)
    for fold in range(member.max() + 1):
        here = member == fold
        fitted = fit_isotonic(p[~here].ravel(), y[~here].ravel(), interpolation=interpolation)
        calibrated[here] = fitted.confidence(p[here])
    return calibrated


def _axes(values: Any) -> int:
    try:
        return np.ndim(values)
    except ValueError:  # ragged
        return 2


def _pairs(probs_name: str, probs: Any, hits_name: str, hits: Any, *, ndim: int = 2) -> tuple[Array, Array]:
    p, y = unit_interval(probs_name, probs, ndim=ndim), outcomes(hits_name, hits, ndim=ndim)
    if p.shape != y.shape:
        raise InvalidInput(f"{probs_name} is {p.shape} and {hits_name} {y.shape}")
    return p, y
