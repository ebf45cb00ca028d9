"""From a score to a number in [0, 1] without labels (PRED 3.2; GAP 4.3): where nothing can be fitted.

Such a confidence is no probability of being right: calibration metrics of it describe the scaling as much as the
score. Prefer a fitted calibrator, and say so in a report that uses one of these.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from uncertainty.checks import Array, finite, whole_number


@dataclass(frozen=True, kw_only=True)
class MinMaxMap:
    """1 - (u - low) / (high - low), clipped to [0, 1]. A constant reference has low = high: NaN, not confidence 1."""

    low: float
    """Lowest score of the reference set."""

    high: float

    def confidence(self, evidence: Array) -> Array:
        """Confidence for each value of `evidence`, the negated score; NaN stays NaN."""
        scores = -np.asarray(evidence, dtype=np.float64)
        if self.low == self.high:
            return np.full_like(scores, np.nan)
        return np.asarray(1 - (np.clip(scores, self.low, self.high) - self.low) / (self.high - self.low))


@dataclass(frozen=True, kw_only=True)
class MinMax:
    """The map as it is configured, in the place of a calibrator: its reference is the calibration set."""

    def fit(self, evidence: Array, correct: Array) -> MinMaxMap:  # noqa: ARG002 - outcomes are not used
        return fit_minmax(-finite("evidence", evidence))


def fit_minmax(reference: Any) -> MinMaxMap:
    """Take the range of the scores of a reference set."""
    scores = finite("reference", reference)
    return MinMaxMap(low=float(scores.min()), high=float(scores.max()))


def minmax_confidence(u: Any, reference: Any = None) -> Array:
    """Confidence [n] of scores `u` by the range of `reference`, or of the batch itself, which only an audit may do."""
    scores = finite("u", u)
    return fit_minmax(scores if reference is None else reference).confidence(-scores)


def entropy_confidence(u: Any, n_classes: Any) -> Array:
    """1 - u / ln C, clipped to [0, 1], of entropies `u` [n] in nats over C >= 2 classes."""
    scores, classes = finite("u", u), whole_number("n_classes", n_classes, least=2)
    return np.asarray(1 - np.clip(scores / np.log(classes), 0, 1))
