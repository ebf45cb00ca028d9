"""Calibrated probabilities of all classes: vector scaling and Dirichlet calibration.

Both read probabilities, not logits: logits that differ by a constant are one input. Every penalty is above 0. Then
there is one best fit, also where the classes can be separated and the papers' versions run away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    class_indices,
    probability_rows,
    real_number,
    relative_weights,
    same_length,
    where_known,
)

FLOOR = 1e-6
"""The smallest probability that enters a logarithm."""


@dataclass(frozen=True, kw_only=True)
class VectorScalingMap:
    """softmax(w_j ln p_j + b_j)."""

    reads: ClassVar[str] = "classes"

    w: Array
    """[K]"""

    b: Array
    """[K]"""

    floor: float = FLOOR

    def of_classes(self, probs: Array) -> Array:
        """Calibrated probabilities [n, K] of `probs` [n, K]."""
        return np.asarray(softmax(log_probabilities(probs, len(self.b), self.floor) * self.w + self.b, axis=1))

    def confidence(self, evidence: Array) -> Array:
        """Calibrated probability [n] of the given label, from `evidence` [n, 2, K]: probabilities, and the label."""
        return where_known(evidence, lambda rows: _of_given(self.of_classes(rows[:, 0]), rows))


@dataclass(frozen=True, kw_only=True)
class DirichletMap:
    """softmax(W ln p + b); row j of W makes class j."""

    reads: ClassVar[str] = "classes"

    w: Array
    """[K, K]"""

    b: Array
    """[K]"""

    floor: float = FLOOR

    def of_classes(self, probs: Array) -> Array:
        """Calibrated probabilities [n, K] of `probs` [n, K]."""
        return np.asarray(softmax(log_probabilities(probs, len(self.b), self.floor) @ self.w.T + self.b, axis=1))

    def confidence(self, evidence: Array) -> Array:
        """Calibrated probability [n] of the given label, from `evidence` [n, 2, K]: probabilities, and the label."""
        return where_known(evidence, lambda rows: _of_given(self.of_classes(rows[:, 0]), rows))


@dataclass(frozen=True, kw_only=True)
class VectorScaling:
    """`vector` as it is configured. It reads the probabilities of all classes, whatever the score."""

    reads: ClassVar[str] = "classes"

    penalty: float = 1e-3

    def __post_init__(self) -> None:
        real_number("penalty", self.penalty, above=0)

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> VectorScalingMap:
        """`evidence` [n, 2, K] is of rows whose right classes have the indices `target` [n]."""
        return fit_vector_scaling(evidence[:, 0], target, penalty=self.penalty, weights=weights)


@dataclass(frozen=True, kw_only=True)
class Dirichlet:
    """`dirichlet` as it is configured. It reads the probabilities of all classes, whatever the score."""

    reads: ClassVar[str] = "classes"

    off_diagonal: float = 1e-2
    intercept: float = 1e-2
    diagonal: float = 1e-4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            real_number(name, value, above=0)

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> DirichletMap:
        """`evidence` [n, 2, K] is of rows whose right classes have the indices `target` [n]."""
        return fit_dirichlet(evidence[:, 0], target, **vars(self), weights=weights)


def fit_vector_scaling(
    probs: Any, labels: Any, *, penalty: float = 1e-3, floor: float = FLOOR, weights: Any = None
) -> VectorScalingMap:
    """Fit one slope and one intercept for each class, 2 K numbers (Guo et al. 2017).

    `probs` [n, K], K >= 2, rows add up to 1; `labels` [n] are indices of the right classes; some may not occur.
    Minimises the mean negative log-likelihood, in which a row counts by its weight, + (penalty / K) sum_j [(w_j - 1)^2
    + b_j^2].
    """
    p, right = _labelled(probs, labels)
    own = real_number("penalty", penalty, above=0)
    logs, k = log_probabilities(p, p.shape[1], floor), p.shape[1]

    def logits(t: Array) -> Array:
        return logs * t[:k] + t[k:]

    def back(g: Array) -> Array:
        return np.append((logs * g).sum(axis=0), g.sum(axis=0))

    centre = np.append(np.ones(k), np.zeros(k))
    share = relative_weights(weights, probs=p, labels=right)
    t = _fitted(logits, back, right, np.full(2 * k, own / k), centre, share)
    return VectorScalingMap(w=t[:k], b=t[k:], floor=floor)


def fit_dirichlet(
    probs: Any,
    labels: Any,
    *,
    off_diagonal: float = 1e-2,
    intercept: float = 1e-2,
    diagonal: float = 1e-4,
    floor: float = FLOOR,
    weights: Any = None,
) -> DirichletMap:
    """Fit a matrix and an intercept, K^2 + K numbers (Kull et al. 2019, with their ODIR penalty).

    Minimises the mean negative log-likelihood, weighted, + off_diagonal / (K (K - 1)) sum_{i != j} W_ij^2
    + intercept / K sum_j b_j^2 + diagonal / K sum_j (W_jj - 1)^2; the last term is ours. Choose the first two by
    cross-fitting, between 1e-3 and 1. Use it from about 10 K rows of each class; below, `fit_vector_scaling`.
    """
    p, right = _labelled(probs, labels)
    beside, offset, along = (
        real_number(name, value, above=0)
        for name, value in (("off_diagonal", off_diagonal), ("intercept", intercept), ("diagonal", diagonal))
    )
    logs, k = log_probabilities(p, p.shape[1], floor), p.shape[1]

    def logits(t: Array) -> Array:
        return np.asarray(logs @ t[: k * k].reshape(k, k).T + t[k * k :])

    def back(g: Array) -> Array:
        return np.append((g.T @ logs).ravel(), g.sum(axis=0))

    weight = np.full((k, k), beside / (k * (k - 1)))
    np.fill_diagonal(weight, along / k)
    penalties = np.append(weight.ravel(), np.full(k, offset / k))
    centre = np.append(np.eye(k).ravel(), np.zeros(k))
    t = _fitted(logits, back, right, penalties, centre, relative_weights(weights, probs=p, labels=right))
    return DirichletMap(w=t[: k * k].reshape(k, k), b=t[k * k :], floor=floor)


def log_probabilities(probs: Any, classes: int, floor: float) -> Array:
    """Return ln max(p, floor) [n, K] of probabilities of that many classes, whose rows add up to 1."""
    p = probability_rows("probs", probs)
    if p.shape[1] != classes:
        raise InvalidInput(f"probs has {p.shape[1]} columns; {classes} were fitted")
    return np.asarray(np.log(np.maximum(p, checked_floor(floor))))


def checked_floor(floor: Any) -> float:
    """Return `floor` if it is above 0 and below 1/2."""
    if real_number("floor", floor, above=0) >= 0.5:
        raise InvalidInput(f"floor is {floor}; it lies between 0 and 1/2")
    return float(floor)


def _of_given(probabilities: Array, evidence: Array) -> Array:
    """[n], of the label that is given in the second row of `evidence` [n, 2, K]."""
    return np.asarray(probabilities[np.arange(len(evidence)), evidence[:, 1].argmax(axis=1)])


def _labelled(probs: Any, labels: Any) -> tuple[Array, NDArray[np.intp]]:
    p = probability_rows("fit_probs", probs)
    if p.shape[1] < 2:
        raise InvalidInput("fit_probs has 1 column; at least 2 classes are needed")
    right = class_indices("fit_labels", labels, classes=p.shape[1])
    same_length(fit_probs=p, fit_labels=right)
    return p, right


def _fitted(
    logits: Callable[[Array], Array],
    back: Callable[[Array], Array],
    right: NDArray[np.intp],
    penalties: Array,
    centre: Array,
    weights: Array,
) -> Array:
    """The numbers t with the least weighted mean loss + penalties (t - centre)^2. `logits` is linear up to a constant,
    and `back` is the transpose of its linear part."""
    from scipy.optimize import minimize  # half a second to load, which only who fits should wait for

    share = weights / weights.sum()
    rows = np.arange(len(right))
    base = logits(np.zeros_like(centre))

    def loss(t: Array) -> tuple[float, Array]:
        z = logits(t)
        off = t - centre
        slope = softmax(z, axis=1)
        slope[rows, right] -= 1
        value = share @ (logsumexp(z, axis=1) - z[rows, right]) + penalties @ off**2
        return float(value), back(slope * share[:, np.newaxis]) + 2 * penalties * off

    def curve(t: Array, direction: Array) -> Array:
        p = softmax(logits(t), axis=1)
        d = p * (logits(direction) - base)
        return back((d - p * d.sum(axis=1, keepdims=True)) * share[:, np.newaxis]) + 2 * penalties * direction

    found = minimize(loss, centre, jac=True, hessp=curve, method="trust-ncg", options={"gtol": 1e-12, "maxiter": 2000})
    return np.asarray(found.x)
