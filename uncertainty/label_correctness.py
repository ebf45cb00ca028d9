"""The probability that a label holds, for tasks in which several may: every pair of a row and a label is judged."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    indicators,
    real_number,
    relative_weights,
    unit_interval,
    whole_number,
)
from demur.uncertainty.class_calibration import checked_floor
from demur.uncertainty.correctness_model import penalised_logistic, platt_targets


@dataclass(frozen=True, kw_only=True)
class LabelCorrectnessRecipe:
    C: float = 1.0
    """Above 0; the penalty is ||coef||^2 / (2C)."""

    min_label_events: int = 5
    """A label has an intercept and a slope of its own if it holds in so many rows, and does not hold in as many."""

    min_events: int = 10
    """With fewer pairs that hold, or that do not, only the label's own probability is used."""

    floor: float = 1e-6

    def __post_init__(self) -> None:
        real_number("C", self.C, above=0)
        whole_number("min_label_events", self.min_label_events)
        whole_number("min_events", self.min_events)
        checked_floor(self.floor)

    def fit(self, probs: Any, targets: Any, weights: Any = None) -> "LabelCorrectness":
        """Fit to 0/1 `targets` [n, L] by `probs` [n, L], whose rows need not add up to 1, and count by `weights` [n].

        A pair is judged by the log-odds of its label and the largest log-odds of another label of the row; a label with
        enough events adds to both its own, shrunk to what all have in common.
        """
        p, truth = unit_interval("fit_probs", probs, ndim=2), indicators("fit_targets", targets)
        if p.shape != truth.shape:
            raise InvalidInput(f"fit_probs are {p.shape}, fit_targets {truth.shape}")
        w = np.repeat(relative_weights(weights, fit_probs=p), p.shape[1])
        z, other = _log_odds(p, self.floor)
        moments = [_moment(z), _moment(other) if other is not None else (0.0, 1.0)]
        y, holds = truth.ravel().astype(np.float64), truth.sum(axis=0)
        whole = min(y.sum(), len(y) - y.sum()) >= self.min_events
        least = self.min_label_events
        labels = np.flatnonzero((holds >= least) & (len(truth) - holds >= least)) if whole else np.empty(0, np.intp)
        model = LabelCorrectness(
            kind="model" if whole else "score",
            labels=labels,
            n_labels=p.shape[1],
            floor=self.floor,
            mean=np.array([mean for mean, _ in moments]),
            spread=np.array([spread for _, spread in moments]),
            coef=np.empty(0),
            intercept=0.0,
        )
        coef, intercept = penalised_logistic(
            model.columns(z, other), y if whole else platt_targets(y), w / w.mean(), self.C
        )
        return LabelCorrectness(**{**vars(model), "coef": coef, "intercept": intercept})


@dataclass(frozen=True, kw_only=True)
class LabelCorrectness:
    kind: str
    """`model`, or `score`: then only the label's own probability counts."""

    labels: NDArray[np.intp]
    """Labels with an intercept and a slope of their own."""

    n_labels: int
    floor: float
    mean: Array
    """[2], of a label's own log-odds and of the largest other ones; `spread` is their standard deviation."""

    spread: Array
    coef: Array
    intercept: float

    def probability(self, probs: Any) -> Array:
        """Return [n, L]: the probability that each label holds.

        A label that is given is right with this probability, one that is not with the rest; a row is as sure as its
        least sure label.
        """
        p = unit_interval("probs", probs, ndim=2)
        if p.shape[1] != self.n_labels:
            raise InvalidInput(f"probs has {p.shape[1]} columns; {self.n_labels} were fitted")
        eta = self.columns(*_log_odds(p, self.floor)) @ self.coef + self.intercept
        return np.asarray(expit(eta).reshape(p.shape))

    def columns(self, z: Array, other: Array | None) -> Any:
        """The sparse columns [n L, d] of all pairs, from log-odds [n, L]."""
        from scipy import sparse

        own = ((z - self.mean[0]) / self.spread[0]).ravel()
        parts = [own[:, np.newaxis]]
        if self.kind == "score":
            return sparse.csr_array(parts[0])
        if other is not None:
            parts.append(((other - self.mean[1]) / self.spread[1]).ravel()[:, np.newaxis])
        label = np.tile(np.arange(z.shape[1]), len(z))
        place = np.full(z.shape[1], -1)
        place[self.labels.astype(np.intp)] = np.arange(len(self.labels))  # an artifact holds them as floats
        pairs = np.flatnonzero(place[label] >= 0)
        shape = (len(own), len(self.labels))
        for values in (np.ones(len(pairs)), own[pairs]):
            parts.append(sparse.csr_array((values, (pairs, place[label[pairs]])), shape=shape))
        return sparse.hstack(parts, format="csr")


def _log_odds(p: Array, floor: float) -> tuple[Array, Array | None]:
    """Log-odds [n, L], and the largest log-odds among the other labels of the row; None with one label."""
    z = np.asarray(logit(np.clip(p, floor, 1 - floor)))
    if z.shape[1] == 1:
        return z, None
    first = z.argmax(axis=1)
    top_two = np.partition(z, -2, axis=1)[:, -2:]
    other = np.repeat(top_two[:, 1:], z.shape[1], axis=1)
    other[np.arange(len(z)), first] = top_two[:, 0]
    return z, other


def _moment(values: Array) -> tuple[float, float]:
    mean, spread = float(values.mean()), float(values.std())
    return mean, 1.0 if spread <= 1e-12 * max(1, abs(mean)) else spread
