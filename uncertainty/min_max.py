"""A score squeezed between the ends of the calibration data. It is no probability, and says so little as that."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.uncertainty.checks import Array, finite


@dataclass(frozen=True, kw_only=True)
class MinMaxMap:
    """(s - low) / (high - low), clipped to [0, 1]; NaN if both ends are one."""

    reads: ClassVar[str] = "score"

    low: float
    high: float

    def confidence(self, evidence: Array) -> Array:
        values = np.asarray(evidence, dtype=np.float64)
        if self.low == self.high:
            return np.full(values.shape, np.nan)
        inside = np.clip(values, self.low, self.high)  # first, so that no quotient overflows
        return np.asarray((inside - self.low) / (self.high - self.low))


@dataclass(frozen=True, kw_only=True)
class MinMax:
    """The calibrator as it is configured, for margins that have no scale of their own (XMLC section 3)."""

    reads: ClassVar[str] = "score"

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> MinMaxMap:  # noqa: ARG002 - no labels
        return fit_min_max(evidence)


def fit_min_max(scores: Any) -> MinMaxMap:
    """Return the map from the lowest of these numbers [n] to 0 and from the highest to 1."""
    s = finite("fit_scores", scores)
    return MinMaxMap(low=float(s.min()), high=float(s.max()))
