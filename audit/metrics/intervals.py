"""How far a share that was found on some labels may be from the truth (METHODS 9.3)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.weighted_rows import labelled_values, mean_of, row_weights
from demur.policies.risk_bound import binomial_upper_bound
from demur.uncertainty.checks import Array, InvalidInput, fraction, real_number, whole_number


@dataclass(frozen=True, kw_only=True)
class MeanInterval:
    """A weighted mean and its normal interval, which is not clipped. NaN for what so few labels do not tell."""

    estimate: float
    standard_error: float
    lower: float
    upper: float
    n_effective: float


def normal_quantile(delta: Any) -> float:
    """Return z with P(|normal| > z) = delta."""
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    return float(-ndtri(delta / 2))


def effective_n(weights: Any) -> float:
    """W^2 / sum w^2: how many labels of equal weight would tell as much (Kish 1965). NaN without a label."""
    return effective(row_weights(weights))


def effective(weights: Array) -> float:
    """Return the effective number of rows for weights that were checked."""
    if not (weights > 0).any():
        return np.nan
    w = weights / weights.max()  # so that neither tiny nor huge weights leave the range of floats
    return float(w.sum() ** 2 / (w @ w))


def hajek_interval(values: Any, weights: Any, delta: Any = 0.05) -> MeanInterval:
    """The weighted mean of values [n], with a standard error by linearisation; no interval of fewer than 2 labels.

    If no label shows an error the width is 0, which is no certainty: ask `evidence` before it is believed.
    """
    z = normal_quantile(delta)
    v, w = labelled_values("values", values, weights)
    estimate = mean_of(v, w)
    error = np.nan
    if len(v) > 1:
        share = w / w.max()
        error = float(np.linalg.norm(share * (v - estimate)) / share.sum())
    return MeanInterval(
        estimate=estimate,
        standard_error=error,
        lower=estimate - z * error,
        upper=estimate + z * error,
        n_effective=effective(w),
    )


def wilson(k: Any, n: Any, delta: Any = 0.05) -> Interval:
    """The score interval for k of n (Wilson 1927): only where all labels have one common probability. NaN if n = 0."""
    hits, total = _counts(k, n)
    z = normal_quantile(delta)
    if total == 0:
        return Interval(lower=np.nan, upper=np.nan)
    centre = (hits + z**2 / 2) / (total + z**2)
    half = z / (total + z**2) * np.sqrt(hits * (total - hits) / total + z**2 / 4)
    return Interval(
        lower=0.0 if hits == 0 else float(centre - half), upper=1.0 if hits == total else float(centre + half)
    )


def clopper_pearson(k: Any, n: Any, delta: Any = 0.05) -> Interval:
    """The exact interval for k of n, delta / 2 on each side (1934): only where all labels have one common
    probability."""
    hits, total = _counts(k, n)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    return Interval(
        lower=0.0 if hits == 0 else float(betaincinv(hits, total - hits + 1, delta / 2)),
        upper=binomial_upper_bound(hits, total, delta / 2),
    )


def _counts(k: Any, n: Any) -> tuple[int, int]:
    hits, total = whole_number("k", k), whole_number("n", n)
    if hits > total:
        raise InvalidInput(f"k is {hits}, above n = {total}")
    return hits, total
