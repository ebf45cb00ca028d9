"""Scores of raw logits [n, C]: unbounded, higher when the model is less sure.

They need the logits themselves. Log-probabilities are no substitute: the energy of these is 0 in every row.
"""

from typing import Any

import numpy as np
from scipy.special import logsumexp

from demur.uncertainty.checks import Array, finite, real_number


def energy(logits: Any, temperature: float = 1.0) -> Array:
    """Return [n]: -T ln sum_c exp(z_c / T) of each row, T > 0 (Liu et al. 2020)."""
    z = finite("logits", logits, ndim=2)
    t = real_number("temperature", temperature, above=0)
    return np.asarray(-t * logsumexp(z / t, axis=1))


def max_logit(logits: Any) -> Array:
    """Return [n]: minus the largest logit of each row (Hendrycks et al. 2022)."""
    return np.asarray(-finite("logits", logits, ndim=2).max(axis=1))
