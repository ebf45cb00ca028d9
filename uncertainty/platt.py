"""Platt scaling: a logistic curve through the evidence (Platt 1999; XMLC section 2.3)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, logit

from demur.uncertainty.checks import Array, InvalidInput, finite, outcomes, relative_weights
from demur.uncertainty.logistic import fit_logistic

CLIP = 1e-12
"""Probabilities are kept this far from 0 and 1 where their log-odds are taken."""


@dataclass(frozen=True, kw_only=True)
class PlattMap:
    """p = 1 / (1 + exp(a s + b)); `a` is below 0 when more evidence means more often right."""

    a: float
    b: float
    log_odds: bool = False
    """s is ln(p / (1 - p)) of a probability p."""

    @property
    def reads(self) -> str:
        return _reads(self.log_odds)

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each value of `evidence`; NaN stays NaN."""
        return np.asarray(expit(-(self.a * _scale(evidence, self.log_odds) + self.b)))


@dataclass(frozen=True, kw_only=True)
class Platt:
    """The calibrator as it is configured."""

    smoothing: bool = True
    """Use Platt's targets instead of 0 and 1, which keeps a handful of errors from giving certainty."""

    log_odds: bool = False
    """Read 1 - score as a probability, and fit to its log-odds: then a calibrator that changes nothing is among those
    that can be found. Without it a bounded score is fitted as it is."""

    @property
    def reads(self) -> str:
        return _reads(self.log_odds)

    def __post_init__(self) -> None:
        _check_smoothing(self.smoothing)

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> PlattMap:
        fitted = fit_platt(_scale(evidence, self.log_odds), target, weights=weights, smoothing=self.smoothing)
        return replace(fitted, log_odds=self.log_odds)


def fit_platt(evidence: Any, targets: Any, *, weights: Any = None, smoothing: bool = True) -> PlattMap:
    """Maximum-likelihood fit of 0/1 `targets` [n] to `evidence` [n].

    With `smoothing` the targets are (N+ + 1) / (N+ + 2) and 1 / (N- + 2); without it, both outcomes must occur. With
    `weights` [n] the likelihood is that of rows that count so much, and N+ and N- add up to their effective number.
    Constant evidence says nothing: a = 0 and the mean target remains.
    """
    s, y = finite("evidence", evidence), outcomes("targets", targets)
    w = relative_weights(weights, evidence=s, targets=y)
    _check_smoothing(smoothing)
    if smoothing:
        right = w @ y
        y = np.where(y == 1, (right + 1) / (right + 2), 1 / (w.sum() - right + 2))
    elif y.min() == y.max():
        raise InvalidInput("all targets are equal; without smoothing both outcomes must occur")

    if s.min() == s.max():
        return PlattMap(a=0.0, b=float(-logit(np.average(y, weights=w))))
    (slope,), intercept = fit_logistic(s[:, None], y, w)
    return PlattMap(a=float(-slope), b=-intercept)


def _reads(log_odds: bool) -> str:
    return "probability" if log_odds else "score"


def _scale(evidence: Any, log_odds: bool) -> Array:
    values = np.asarray(evidence, dtype=np.float64)
    return np.asarray(logit(np.clip(values, CLIP, 1 - CLIP)) if log_odds else values)


def _check_smoothing(smoothing: Any) -> None:
    if not isinstance(smoothing, bool):
        raise InvalidInput(f"smoothing is {smoothing!r}, not true or false")
