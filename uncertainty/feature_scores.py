"""Three ways from several features of a row to one score, each fitted on rows whose outcome is known (GAP 5.2).

Features are [n, d]: of a reasoning trace (tokens, questions, waits; GAP fits on 40% of the data, stratified by group,
and evaluates on the rest), or other scores. Results are [n], higher when the model is less sure, and do not depend on
the rest of the batch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from demur.uncertainty.checks import Array, InvalidInput, finite, outcomes, real_number, same_length


@dataclass(frozen=True, kw_only=True)
class FeatureSumScore:
    """Sum of the features, each scaled to [0, 1] by its range in the fit set and clipped: in [0, d]."""

    low: Array
    """[d]"""

    high: Array
    """[d]; a feature with high = low tells nothing and counts as 0."""

    def uncertainty(self, features: Any) -> Array:
        rows = _rows(features, len(self.low))
        width = np.where(self.high > self.low, self.high - self.low, 1)
        return np.asarray(((np.clip(rows, self.low, self.high) - self.low) / width).sum(axis=1))


@dataclass(frozen=True, kw_only=True)
class FeatureLogisticScore:
    """1 - probability of being right, from a logistic regression on standardised features: in [0, 1]."""

    mean: Array
    """[d], of the fit set, as is `spread`, the population standard deviation (1 for a constant feature)."""

    spread: Array
    coef: Array
    """[d], per standard deviation; above 0 where more of the feature means more often right."""

    intercept: float

    def uncertainty(self, features: Any) -> Array:
        z = (_rows(features, len(self.mean)) - self.mean) / self.spread
        return np.asarray(expit(-(z @ self.coef + self.intercept)))


@dataclass(frozen=True, kw_only=True)
class FeatureRidgeScore:
    """1 - fitted correctness, from a ridge regression on standardised features, clipped to [0, 1].

    GAP's "calibration regression". The fields are those of `FeatureLogisticScore`.
    """

    mean: Array
    spread: Array
    coef: Array
    intercept: float

    def uncertainty(self, features: Any) -> Array:
        z = (_rows(features, len(self.mean)) - self.mean) / self.spread
        return np.asarray(1 - np.clip(z @ self.coef + self.intercept, 0, 1))


@dataclass(frozen=True, kw_only=True)
class FeatureSum:
    """The sum as it is configured."""

    def fit(self, features: Any, correct: Any = None) -> FeatureSumScore:  # noqa: ARG002 - outcomes are not used
        """Take the range of each feature in `features` [n, d]."""
        rows = finite("fit_features", features, ndim=2)
        return FeatureSumScore(low=rows.min(axis=0), high=rows.max(axis=0))


@dataclass(frozen=True, kw_only=True)
class FeatureLogistic:
    """The logistic regression as it is configured."""

    C: float = 1.0
    """Above 0; the penalty is ||w||^2 / (2C)."""

    def __post_init__(self) -> None:
        real_number("C", self.C, above=0)

    def fit(self, features: Any, correct: Any) -> FeatureLogisticScore:
        """Minimise sum of log-losses + ||w||^2 / (2C) over `features` [n, d] and 0/1 `correct` [n]; b is free.

        Both outcomes must occur. Separable data has a minimum too, because of the penalty.
        """
        mean, spread, z, y = _standardised(features, correct)
        if y.min() == y.max():
            raise InvalidInput("every fitted answer is right, or every one wrong; both must occur")
        from sklearn.linear_model import LogisticRegression  # here, because a gateway that never fits need not load it

        # the default solver stops at six digits or fewer
        model = LogisticRegression(C=self.C, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(z, y)
        return FeatureLogisticScore(mean=mean, spread=spread, coef=model.coef_[0], intercept=float(model.intercept_[0]))


@dataclass(frozen=True, kw_only=True)
class FeatureRidge:
    """The ridge regression as it is configured."""

    alpha: float = 1.0
    """At least 0; the penalty is alpha ||w||^2."""

    def __post_init__(self) -> None:
        real_number("alpha", self.alpha, least=0)

    def fit(self, features: Any, correct: Any) -> FeatureRidgeScore:
        """Minimise ||y - Zw - b||^2 + alpha ||w||^2 over `features` [n, d] and 0/1 `correct` [n]; b is free.

        With alpha 0 and dependent features there are many minima; the one with the smallest ||w|| is returned.
        """
        mean, spread, z, y = _standardised(features, correct)
        # the penalty as d more rows of least squares; scikit-learn's Ridge agrees, but warns at alpha 0
        d = z.shape[1]
        stacked = np.vstack([z, np.sqrt(self.alpha) * np.eye(d)])
        coef = np.linalg.lstsq(stacked, np.append(y - y.mean(), np.zeros(d)), rcond=None)[0]
        return FeatureRidgeScore(mean=mean, spread=spread, coef=coef, intercept=float(y.mean()))


def _standardised(features: Any, correct: Any) -> tuple[Array, Array, Array, Array]:
    """Mean, population sd, z-scores and outcomes of the fit set."""
    rows, y = finite("fit_features", features, ndim=2), outcomes("fit_correct", correct)
    same_length(fit_features=rows, fit_correct=y)
    constant = rows.min(axis=0) == rows.max(axis=0)  # the sd of a constant need not be exactly 0
    mean = np.where(constant, rows[0], rows.mean(axis=0))
    spread = np.where(constant, 1, rows.std(axis=0))
    return mean, spread, (rows - mean) / spread, y


def _rows(features: Any, d: int) -> Array:
    rows = finite("features", features, ndim=2)
    if rows.shape[1] != d:
        raise InvalidInput(f"features have {rows.shape[1]} columns; {d} were fitted")
    return rows
