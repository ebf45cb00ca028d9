"""Weights for rows of another kind of traffic, where only the inputs have changed (METHODS 10.12).

That P(outcome | input) is the same cannot be tested without labels: it is assumed, and said.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import error_rate
from demur.uncertainty.checks import Array, InvalidInput, finite, real_number, same_length


@dataclass(frozen=True, kw_only=True, eq=False)
class ShiftWeights:
    """How much each row stands for in the current traffic."""

    weights: Array
    """[n], of the reference rows: mean 1 before they are clipped."""

    current_weights: Array
    """[m], of the current rows, on the same scale."""

    n_effective: float
    """As many reference rows of equal weight would tell as much (Kish 1965)."""

    share_clipped: float
    status: str
    """`refused`: too few reference rows are like the current ones; only new labels help. Otherwise `ok`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightModel:
    """How much more often a row comes in the current traffic than among the reference rows, fitted on both."""

    centre: Array
    """[d], of the features as they are."""

    scale: Array
    """[d]."""

    coefficients: Array
    """[d], of the standardised features."""

    level: float
    """ln of the mean of exp(coefficients z) over the reference rows, so that their weights are 1 on average."""

    max_weight: float

    def raw(self, features: Any) -> Array:
        """Return the weights [n] of rows with these features [n, d], before they are clipped."""
        rows = finite("features", features, ndim=2)
        if rows.shape[1] != len(self.centre):
            raise InvalidInput(
                f"features has {rows.shape[1]} columns, and the weights were fitted on {len(self.centre)}"
            )
        with np.errstate(over="ignore"):  # it is clipped
            return np.asarray(np.exp((rows / self.scale - self.centre) @ self.coefficients - self.level))

    def of(self, features: Any) -> Array:
        """Return the weights [n] of rows with these features [n, d]."""
        return np.minimum(self.raw(features), self.max_weight)


def fit_weight_model(
    reference_features: Any, current_features: Any, C: float = 1.0, max_weight: float = 20.0
) -> WeightModel:
    """Return a logistic regression of current [m, d] against reference rows [n, d], as weights."""
    reference, current = (
        finite("reference_features", reference_features, ndim=2),
        finite("current_features", current_features, ndim=2),
    )
    if reference.shape[1] != current.shape[1]:
        raise InvalidInput(f"reference_features has {reference.shape[1]} columns, current_features {current.shape[1]}")
    penalty, most = real_number("C", C, above=0), real_number("max_weight", max_weight, above=0)
    from sklearn.linear_model import LogisticRegression  # here, because a gateway that never fits need not load it

    both = np.vstack([reference, current])
    constant = both.min(axis=0) == both.max(axis=0)
    scale = np.where(constant, 1.0, np.abs(both).max(axis=0))  # so that no square leaves the range of floats
    both = both / scale
    centre, spread = both.mean(axis=0), np.where(constant, 1.0, both.std(axis=0))
    z = (both - centre) / spread
    z[:, constant] = 0.0
    is_current = np.append(np.zeros(len(reference)), np.ones(len(current)))
    model = LogisticRegression(C=penalty, solver="newton-cholesky", tol=1e-12, max_iter=1000).fit(z, is_current)
    own = z[: len(reference)] @ model.coef_[0]
    return WeightModel(
        centre=centre,
        scale=scale,
        coefficients=np.where(constant, 0.0, model.coef_[0] / spread),
        level=float(own.max() + np.log(np.exp(own - own.max()).mean())),
        max_weight=most,
    )


def effective_number(weights: Array) -> float:
    """Return how many rows of equal weight tell as much (Kish 1965); 0 where all weights are 0."""
    squares = float(weights @ weights)
    return float(weights.sum() ** 2 / squares) if squares > 0 else 0.0


def shift_weights(
    reference_features: Any,
    current_features: Any,
    C: float = 1.0,
    max_weight: float = 20.0,
    min_effective: float = 50,
) -> ShiftWeights:
    """Return exp(f) for the log-odds f of a logistic regression of current [m, d] against reference rows [n, d].

    Features are embeddings, or confidence alone. They are standardised over both; the penalty is ||coef||^2 / (2 C).
    Weights have the mean 1 over the reference and are then clipped at `max_weight`. What is promised with these weights
    is exact only for known ones: fit them on rows that certify nothing, or say that they are estimated.
    """
    model = fit_weight_model(reference_features, current_features, C, max_weight)
    least = real_number("min_effective", min_effective, least=0)
    raw = model.raw(reference_features)
    weights = np.minimum(raw, model.max_weight)
    n_effective = effective_number(weights)
    return ShiftWeights(
        weights=weights,
        current_weights=model.of(current_features),
        n_effective=n_effective,
        share_clipped=float((raw > model.max_weight).mean()),
        status="ok" if n_effective >= least else "refused",
    )


def weighted_conformal_quantile(scores: Any, weights: Any, test_weights: Any, alpha: float) -> Array:
    """Return [m]: for each request, of which `test_weights` [m] are the weights, the smallest of `scores` [n] s with
    sum_{s_i <= s} w_i >= (1 - alpha)(sum w + w_test); +inf, a full set, where there is none (Tibshirani et al. 2019).

    Sets of the options with a score up to it cover the right label with probability 1 - alpha, on average over fits and
    requests of the new traffic, if only the inputs have changed and the weights are right. Weights are 0 or more and
    not all 0; equal ones give `conformal_quantile`.
    """
    values, w, own = finite("scores", scores), finite("weights", weights), finite("test_weights", test_weights)
    same_length(scores=values, weights=w)
    error_rate(alpha)
    if w.min() < 0 or own.min() < 0 or w.max() == 0:
        raise InvalidInput("weights and test_weights are 0 or more, and the weights are not all 0")
    largest = max(w.max(), own.max())  # so that no sum leaves the range of floats
    order = np.argsort(values, kind="stable")
    ranked, reached = values[order], np.cumsum(w[order] / largest)
    wanted = (1 - alpha) * (reached[-1] + own / largest) * (1 - 1e-9)
    place = np.searchsorted(reached, wanted, side="left")
    return np.asarray(np.append(ranked, np.inf)[place])
