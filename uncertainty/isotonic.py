"""Isotonic calibration: the non-decreasing map that fits the outcomes best (Zadrozny & Elkan 2002; XMLC eq. 9)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from uncertainty.checks import Array, InvalidInput, finite, same_length

Interpolation = Literal["linear", "step"]


@dataclass(frozen=True, kw_only=True)
class IsotonicMap:
    """A monotone map given by its knots; clipped to the end values outside of them."""

    knots: Array
    """Fitted evidence, ascending."""

    values: Array
    """Fitted probability at each knot, non-decreasing."""

    interpolation: str = "linear"

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each value of `evidence`; NaN stays NaN."""
        if self.interpolation == "linear":
            return np.interp(evidence, self.knots, self.values)
        at = np.searchsorted(self.knots, evidence, side="right") - 1  # the largest knot <= evidence
        return np.where(np.isnan(evidence), np.nan, self.values[np.maximum(at, 0)])


@dataclass(frozen=True, kw_only=True)
class Isotonic:
    """The calibrator as it is configured."""

    interpolation: Interpolation = "linear"

    def fit(self, evidence: Array, correct: Array) -> IsotonicMap:
        return fit_isotonic(evidence, correct, interpolation=self.interpolation)


def fit_isotonic(
    evidence: Any, targets: Any, *, weights: Any = None, interpolation: Interpolation = "linear"
) -> IsotonicMap:
    """Least-squares non-decreasing fit of `targets` [n] to `evidence` [n] (higher means more surely right).

    Equal evidence is pooled first. `evidence` may be unbounded. On the fitted rows the mean of the map equals
    the (weighted) mean of the targets.
    """
    x, y = finite("evidence", evidence), finite("targets", targets)
    w = None if weights is None else finite("weights", weights)
    same_length(evidence=x, targets=y, **({} if w is None else {"weights": w}))
    if w is not None and w.min() <= 0:
        raise InvalidInput("weights must be above 0")
    if interpolation not in ("linear", "step"):
        raise InvalidInput(f"interpolation is {interpolation!r}; it is 'linear' or 'step'")
    from sklearn.isotonic import IsotonicRegression  # here, because a gateway that never fits need not load it

    fitted = IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=w)
    return IsotonicMap(
        knots=np.asarray(fitted.X_thresholds_, dtype=np.float64),
        values=np.asarray(fitted.y_thresholds_, dtype=np.float64),
        interpolation=interpolation,
    )
