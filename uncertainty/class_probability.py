"""Scores from class probabilities, one pass or many (Khallaf & Sharoff, To Predict or Not to Predict?, Table 7).

`probs` is [n, C]; `mc_probs` is [n, T, C], T passes with dropout left on (Gal & Ghahramani 2016). Each row of
classes sums to 1. Results are [n], higher when the model is less sure; logarithms are natural.
"""

from typing import Any, Literal

import numpy as np
from scipy.special import entr

from demur.uncertainty.checks import Array, one_of, probability_rows


def softmax_response(probs: Any) -> Array:
    """1 - max_c p_c, in [0, 1 - 1/C]."""
    return np.asarray(1 - probability_rows("probs", probs).max(axis=1))


def entropy(probs: Any) -> Array:
    """-sum_c p_c ln p_c, in [0, ln C]."""
    return np.asarray(entr(probability_rows("probs", probs)).sum(axis=1))


def margin(probs: Any) -> Array:
    """1 - (largest - second largest probability), in [0, 1]; 0 with a single class."""
    rows = probability_rows("probs", probs)
    if rows.shape[1] == 1:
        return np.zeros(len(rows))
    top_two = np.partition(rows, -2, axis=1)[:, -2:]
    return np.asarray(1 - (top_two[:, 1] - top_two[:, 0]))


def sampled_max_probability(mc_probs: Any) -> Array:
    """1 - max_c of the mean over passes, in [0, 1 - 1/C]."""
    return np.asarray(1 - _passes(mc_probs).mean(axis=1).max(axis=1))


def mc_entropy(mc_probs: Any) -> Array:
    """Entropy of the mean over passes, in [0, ln C]: all the uncertainty, of either kind."""
    return np.asarray(entr(_passes(mc_probs).mean(axis=1)).sum(axis=1))


def probability_variance(mc_probs: Any, *, reduce: Literal["mean", "sum"] = "mean") -> Array:
    """Population variance over passes, averaged (or summed) over classes; the mean lies in [0, 1/4]."""
    variance = _passes(mc_probs).var(axis=1)
    one_of("reduce", reduce, ("mean", "sum"))
    return np.asarray(variance.mean(axis=1) if reduce == "mean" else variance.sum(axis=1))


def bald(mc_probs: Any) -> Array:
    """Mutual information of prediction and weights: entropy of the mean less the mean entropy, in [0, ln C].

    Rounding can leave the difference a hair below 0 where it is 0; it is floored there (Houlsby et al. 2011).
    """
    passes = _passes(mc_probs)
    total = entr(passes.mean(axis=1)).sum(axis=1)
    expected = entr(passes).sum(axis=2).mean(axis=1)
    return np.asarray(np.maximum(total - expected, 0))


def _passes(mc_probs: Any) -> Array:
    return probability_rows("mc_probs", mc_probs, ndim=3)
