"""Isotonic calibration: the non-decreasing map that fits the outcomes best (Zadrozny & Elkan 2002; XMLC eq. 9)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite, one_of, same_length, unit_interval

Interpolation = Literal["linear", "step"]


@dataclass(frozen=True, kw_only=True)
class IsotonicMap:
    """A monotone map given by its knots; clipped to the end values outside of them."""

    reads: ClassVar[str] = "score"

    knots: Array
    """Fitted evidence, ascending."""

    values: Array
    """Fitted probability at each knot, non-decreasing."""

    interpolation: str = "linear"

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each value of `evidence`; NaN stays NaN."""
        x = np.minimum(np.maximum(np.asarray(evidence, dtype=np.float64), self.knots[0]), self.knots[-1])
        at = np.searchsorted(self.knots, x, side="right") - 1  # the largest knot <= evidence
        if self.interpolation == "step" or len(self.knots) == 1:
            return np.where(np.isnan(x), np.nan, self.values[at])
        # numpy.interp goes by slopes, which overflow between knots as close as small probabilities are
        low = np.minimum(at, len(self.knots) - 2)
        start, end = self.values[low], self.values[low + 1]
        share = (x - self.knots[low]) / (self.knots[low + 1] - self.knots[low])
        return np.asarray(np.minimum(start + share * (end - start), end))


@dataclass(frozen=True, kw_only=True)
class Isotonic:
    """The calibrator as it is configured."""

    reads: ClassVar[str] = "score"

    interpolation: Interpolation = "linear"

    def __post_init__(self) -> None:
        one_of("interpolation", self.interpolation, ("linear", "step"))

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> IsotonicMap:
        return fit_isotonic(evidence, target, weights=weights, interpolation=self.interpolation)


def fit_isotonic(
    evidence: Any, targets: Any, *, weights: Any = None, interpolation: Interpolation = "linear"
) -> IsotonicMap:
    """Least-squares non-decreasing fit of `targets` [n] in [0, 1] to `evidence` [n], higher for more surely right.

    Equal evidence is pooled first; scikit-learn also pools what differs by less than 1e-15, which is most of the
    scores of a model with very many labels. `evidence` may be unbounded. On the fitted rows the mean of the map
    equals the (weighted) mean of the targets.
    """
    from scipy.optimize import isotonic_regression  # half a second to load, which only who fits should wait for

    x, y = finite("evidence", evidence), unit_interval("targets", targets)
    w = np.ones(len(x)) if weights is None else finite("weights", weights)
    same_length(evidence=x, targets=y, weights=w)
    if w.min() < 0 or w.max() == 0:
        raise InvalidInput("weights must be 0 or more, and not all 0")
    one_of("interpolation", interpolation, ("linear", "step"))
    w = w / w.max()
    x, y, w = x[w > 0], y[w > 0], w[w > 0]
    order = np.argsort(x, kind="stable")
    x, y, w = x[order], y[order], w[order]
    starts = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
    mass = np.add.reduceat(w, starts)
    fitted = isotonic_regression(np.add.reduceat(w * y, starts) / mass, weights=mass).x
    # the inner points of a plateau say nothing that its ends do not
    level = np.append(True, fitted[1:] == fitted[:-1]) & np.append(fitted[1:] == fitted[:-1], True)
    level[[0, -1]] = False
    return IsotonicMap(knots=x[starts][~level], values=fitted[~level], interpolation=interpolation)
