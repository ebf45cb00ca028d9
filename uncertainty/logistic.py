"""Logistic regression without a penalty, to the last digits."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from uncertainty.checks import Array


def fit_logistic(features: Array, targets: Array) -> tuple[Array, float]:
    """Return slopes [d] and intercept under which `targets` [n], in [0, 1], are most likely given `features` [n, d].

    A feature that is constant gets the slope 0, and so do all where the targets are constant. Where the classes can
    be separated there is no optimum, and what comes back is very steep. scikit-learn takes 0/1 targets only, and
    stops some digits short of what is asked for here.
    """
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-15 * np.maximum(1, np.abs(mean)), spread, np.inf)
    z = np.column_stack([(features - mean) / spread, np.ones(len(features))])

    def loss(w: Array) -> tuple[float, Array]:
        eta = z @ w
        return float(np.mean(np.logaddexp(0, eta) - targets * eta)), z.T @ (expit(eta) - targets) / len(z)

    def curvature(w: Array) -> Array:
        p = expit(z @ w)
        return np.asarray(z.T @ (z * (p * (1 - p))[:, None]) / len(z) + 1e-15 * np.eye(z.shape[1]))

    start = np.zeros(z.shape[1])
    if targets.min() < targets.max():
        start[-1] = logit(targets.mean())
        w = minimize(
            loss, start, jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-12, "maxiter": 1000}
        ).x
    else:
        w = start
        with np.errstate(divide="ignore"):
            w[-1] = logit(targets.mean())
    slopes = w[:-1] / spread
    return slopes, float(w[-1] - slopes @ mean)
