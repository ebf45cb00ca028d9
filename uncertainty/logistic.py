"""Logistic regression without a penalty, to the last digits."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, logit

from demur.uncertainty.checks import Array


def fit_logistic(features: Array, targets: Array, weights: Array | None = None) -> tuple[Array, float]:
    """Return slopes [d] and intercept under which `targets` [n], in [0, 1], are most likely given `features` [n, d],
    where each row counts by its weight, above 0.

    A feature that is constant gets the slope 0, and so do all where the targets are constant. Where the classes can
    be separated there is no optimum, and what comes back is very steep. scikit-learn takes 0/1 targets only, and
    stops some digits short of what is asked for here.
    """
    from scipy.optimize import minimize  # half a second to load, which only who fits should wait for

    share = np.full(len(features), 1 / len(features)) if weights is None else weights / weights.sum()
    low = features.min(axis=0)
    width = features.max(axis=0) - low
    inside = (features - low) / np.where(width > 0, width, np.inf)  # of any scale and offset: now in [0, 1]
    mean, spread = inside.mean(axis=0), np.where(width > 0, inside.std(axis=0), np.inf)
    z = np.column_stack([(inside - mean) / spread, np.ones(len(features))])

    def loss(w: Array) -> tuple[float, Array]:
        eta = z @ w
        return float(share @ (np.logaddexp(0, eta) - targets * eta)), z.T @ (share * (expit(eta) - targets))

    def curvature(w: Array) -> Array:
        p = expit(z @ w)
        return np.asarray(z.T @ (z * (share * p * (1 - p))[:, None]) + 1e-15 * np.eye(z.shape[1]))

    start = np.zeros(z.shape[1])
    if targets.min() < targets.max():
        start[-1] = logit(share @ targets)
        w = minimize(
            loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-12, "maxiter": 1000}
        ).x
        w = _polished(w, lambda at: loss(at)[1], curvature)
    else:
        w = start
        with np.errstate(divide="ignore"):
            w[-1] = logit(targets[0])
    slopes = w[:-1] / spread
    return slopes / np.where(width > 0, width, 1), float(w[-1] - slopes @ (mean + low / np.where(width > 0, width, 1)))


def _polished(w: Array, gradient: Callable[[Array], Array], curvature: Callable[[Array], Array]) -> Array:
    """Newton's last steps: the optimiser stops where the loss no longer changes, which is after half of the digits."""
    rest = gradient(w)
    for _ in range(20):
        trial = w - np.linalg.solve(curvature(w), rest)
        left = gradient(trial)
        if not np.abs(left).max() < np.abs(rest).max() / 2:
            break
        w, rest = trial, left
    return w
