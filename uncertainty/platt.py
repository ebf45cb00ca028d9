"""Platt scaling: a logistic curve through the evidence (Platt 1999; XMLC section 2.3)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from uncertainty.checks import Array, InvalidInput, finite, outcomes, same_length


@dataclass(frozen=True, kw_only=True)
class PlattMap:
    """p = 1 / (1 + exp(a s + b)); `a` is below 0 when more evidence means more often right."""

    a: float
    b: float

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each value of `evidence`; NaN stays NaN."""
        return np.asarray(expit(-(self.a * np.asarray(evidence, dtype=np.float64) + self.b)))


@dataclass(frozen=True, kw_only=True)
class Platt:
    """The calibrator as it is configured."""

    smoothing: bool = True
    """Use Platt's targets instead of 0 and 1, which keeps a handful of errors from giving certainty."""

    def fit(self, evidence: Array, correct: Array) -> PlattMap:
        return fit_platt(evidence, correct, smoothing=self.smoothing)


def fit_platt(evidence: Any, targets: Any, *, smoothing: bool = True) -> PlattMap:
    """Maximum-likelihood fit of 0/1 `targets` [n] to `evidence` [n].

    With `smoothing` the targets are (N+ + 1) / (N+ + 2) and 1 / (N- + 2); without it, both outcomes must occur.
    Constant evidence says nothing: a = 0 and the mean target remains.
    """
    s, y = finite("evidence", evidence), outcomes("targets", targets)
    same_length(evidence=s, targets=y)
    right = y.sum()
    if smoothing:
        y = np.where(y == 1, (right + 1) / (right + 2), 1 / (len(y) - right + 2))
    elif right in (0, len(y)):
        raise InvalidInput("all targets are equal; without smoothing both outcomes must occur")

    spread = s.std()
    if spread == 0 or y.min() == y.max():
        return PlattMap(a=0.0, b=float(-logit(y.mean())))

    z = (s - s.mean()) / spread  # the optimum is the same map; the search is better conditioned

    def loss(parameters: Array) -> tuple[float, Array]:
        eta = parameters[0] * z + parameters[1]
        residual = expit(eta) - y
        return float(np.mean(np.logaddexp(0, eta) - y * eta)), np.array([np.mean(residual * z), residual.mean()])

    def curvature(parameters: Array) -> Array:
        p = expit(parameters[0] * z + parameters[1])
        w = p * (1 - p)
        return np.array([[np.mean(w * z * z), np.mean(w * z)], [np.mean(w * z), w.mean()]])

    start = np.array([0.0, float(logit(y.mean()))])
    best = minimize(loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-12})
    slope, intercept = best.x
    return PlattMap(a=float(-slope / spread), b=float(slope * s.mean() / spread - intercept))
