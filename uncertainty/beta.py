"""Beta calibration: a logistic curve in ln p and ln(1 - p), which can leave p as it is (Kull et al. 2017)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from demur.uncertainty.checks import Array, InvalidInput, outcomes, real_number, relative_weights, unit_interval
from demur.uncertainty.logistic import fit_logistic

EPS = 1e-12


@dataclass(frozen=True, kw_only=True)
class BetaMap:
    """logit p' = a ln p - b ln(1 - p) + c, with a, b >= 0; p is clipped to [eps, 1 - eps]."""

    reads: ClassVar[str] = "probability"

    a: float
    b: float
    c: float
    eps: float = EPS

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each probability in `evidence`; NaN stays NaN."""
        p = np.clip(evidence, self.eps, 1 - self.eps)
        return np.asarray(expit(self.a * np.log(p) - self.b * np.log1p(-p) + self.c))


@dataclass(frozen=True, kw_only=True)
class Beta:
    """The calibrator as it is configured. It reads 1 - score, which must be a probability."""

    reads: ClassVar[str] = "probability"

    eps: float = EPS

    def __post_init__(self) -> None:
        _check_eps(self.eps)

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> BetaMap:
        return fit_beta(evidence, target, weights=weights, eps=self.eps)


def fit_beta(probs: Any, targets: Any, *, weights: Any = None, eps: float = EPS) -> BetaMap:
    """Unpenalised maximum likelihood of 0/1 `targets` [n] given `probs` [n]; both outcomes must occur. Each row counts
    by its weight.

    A negative slope is set to 0 and the rest fitted again, `a` before `b`; if the other turns negative as well, only
    the mean outcome remains.
    """
    p, y = unit_interval("fit_probs", probs), outcomes("fit_targets", targets)
    w = relative_weights(weights, fit_probs=p, fit_targets=y)
    _check_eps(eps)
    if y.min() == y.max():
        raise InvalidInput("fit_targets are all equal; both outcomes must occur")
    p = np.clip(p, eps, 1 - eps)
    rising, falling = np.log(p), -np.log1p(-p)
    (a, b), c = fit_logistic(np.stack([rising, falling], axis=1), y, w)
    if a < 0:
        (b,), c = fit_logistic(falling[:, None], y, w)
        a = 0.0
    elif b < 0:
        (a,), c = fit_logistic(rising[:, None], y, w)
        b = 0.0
    if a < 0 or b < 0:
        a, b, c = 0.0, 0.0, float(logit(np.average(y, weights=w)))
    return BetaMap(a=float(a), b=float(b), c=float(c), eps=eps)


def _check_eps(eps: Any) -> None:
    if not 0 < real_number("eps", eps) < 0.5:
        raise InvalidInput(f"eps is {eps}; it lies between 0 and 1/2")
