"""How far an embedding's direction is from the k-th nearest of the training rows (Sun et al. 2022)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, InvalidInput, finite, memberships, same_length, whole_number
from demur.uncertainty.distances import row_distances
from demur.uncertainty.output import LabelledOutput, Need, Output

QUERIES_AT_A_TIME = 256
"""Distances of this many rows to all training rows are in memory at the same time."""


@dataclass(frozen=True, kw_only=True)
class NeighbourDistance:
    """The distance to the k-th nearest of the fitted rows, in [0, 2]; NaN for a row of zeros."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    directions: Array
    """[N, d], the fitted embeddings, each divided by its length."""

    k: int

    def of(self, output: Output) -> Array:
        return self.distance(output.needed("embedding"))

    def distance(self, features: Any) -> Array:
        """[n] for `features` [n, d]."""
        rows, known = _directions("features", features)
        if rows.shape[1] != self.directions.shape[1]:
            raise InvalidInput(f"features have {rows.shape[1]} columns; {self.directions.shape[1]} were fitted")
        nth = min(self.k, len(self.directions)) - 1
        found = np.full(len(rows), np.nan)
        for start in range(0, len(rows), QUERIES_AT_A_TIME):
            block = slice(start, start + QUERIES_AT_A_TIME)
            found[block] = np.partition(row_distances(rows[block], self.directions), nth, axis=1)[:, nth]
        return np.where(known, found, np.nan)


@dataclass(frozen=True, kw_only=True)
class DeepKnn:
    """The score as it is configured."""

    needs: ClassVar[frozenset[Need]] = frozenset({"embedding"})

    k: int = 10
    """Which neighbour counts; at most the last of them."""

    def __post_init__(self) -> None:
        whole_number("k", self.k, least=1)

    def fit(self, rows: LabelledOutput, quality: Array) -> NeighbourDistance:  # noqa: ARG002 - labels play no part
        """Keep the directions of the rows; a row of zeros has none, and is left out."""
        points, known = _directions("train_features", rows.output.needed("embedding"))
        if not known.any():
            raise InvalidInput(
                "every embedding is a row of zeros, and deep_knn goes by directions; choose another score"
            )
        return NeighbourDistance(directions=points[known], k=self.k)


def deep_knn(
    train_features: Any,
    features: Any,
    k: int = 10,
    train_labels: Any = None,
    predicted: Any = None,
    leave_one_out: bool = False,
) -> Array:
    """Return [n]: the distance of each row of `features` [n, d] to the k-th nearest of `train_features` [N, d].

    Every row is divided by its Euclidean length first, so the distance lies in [0, 2]; it is larger for a stranger row.
    With `train_labels` [N] and `predicted` [n] only training rows of the predicted label are candidates. `k` is capped
    at the number of candidates. NaN where there is no candidate, or where the row is zero and has no direction.

    `leave_one_out` scores the training rows themselves, each without itself: fit a limit on such distances or on other
    rows, never on distances in which a row finds itself. A training row of zeros raises `InvalidInput`, and so do
    lengths or widths that do not fit each other.
    """
    points, known = _directions("train_features", train_features)
    rows, has_direction = _directions("features", features)
    if rows.shape[1] != points.shape[1]:
        raise InvalidInput(f"features have {rows.shape[1]} columns, train_features {points.shape[1]}")
    if not known.all():
        raise InvalidInput("train_features holds a row of zeros, which has no direction; leave it out")
    whole_number("k", k, least=1)
    if not isinstance(leave_one_out, bool):
        raise InvalidInput(f"leave_one_out is {leave_one_out!r}, not true or false")
    if leave_one_out and (len(rows) != len(points) or len(rows) < 2):
        raise InvalidInput("leave_one_out scores the training rows: give them as features too, at least 2 of them")
    own, wanted = _classes(train_labels, predicted, points, rows)
    found = np.full(len(rows), np.nan)
    for start in range(0, len(rows), QUERIES_AT_A_TIME):
        block = np.arange(start, min(start + QUERIES_AT_A_TIME, len(rows)))
        to_all = row_distances(rows[block], points)
        to_all[wanted[block][:, None] != own] = np.inf
        if leave_one_out:
            to_all[np.arange(len(block)), block] = np.inf
        candidates = np.isfinite(to_all).sum(axis=1)
        nth = np.minimum(k, candidates)
        ranked = np.sort(to_all, axis=1)
        some = (nth > 0) & has_direction[block]
        found[block[some]] = ranked[np.flatnonzero(some), nth[some] - 1]
    return found


def _directions(name: str, values: Any) -> tuple[Array, NDArray[np.bool_]]:
    """Rows of length 1, and which rows have a direction; the others stay zero."""
    rows = finite(name, values, ndim=2)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(largest > 0, largest, 1)  # so that no square leaves the range of floats
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return scaled / np.where(length > 0, length, 1), largest[:, 0] > 0


def _classes(
    train_labels: Any, predicted: Any, points: Array, rows: Array
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The class of each training row and of each row: all one class where no labels are given."""
    if train_labels is None and predicted is None:
        return np.zeros(len(points), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    if train_labels is None or predicted is None:
        raise InvalidInput("train_labels and predicted are given together, or neither is")
    for name, labels in (("train_labels", train_labels), ("predicted", predicted)):
        memberships(name, labels)
    own, wanted = list(train_labels), list(predicted)
    same_length(train_features=points, train_labels=own)
    same_length(features=rows, predicted=wanted)
    codes = memberships("labels", own + wanted)
    return codes[: len(own)], codes[len(own) :]
