"""Whether scores are distributed as they were on a reference (METHODS 9.4).

A change of scores is not a change of risk: it asks for labels, it does not find that a promise was broken. A test that
is made every week at 5% finds a change that is not there about 2.6 times a year; split the level over the looks that
are planned, or use `audit.exchangeability`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import chdtrc, kolmogorov

from demur.uncertainty.checks import finite, snapped_ceil, whole_number


@dataclass(frozen=True, kw_only=True)
class StabilityIndex:
    """How large a change is (`psi`), what its mean would be without any (`expected`), and how surprising it is."""

    psi: float
    n_bins: int
    """As many as there are, which with tied scores is fewer than were asked for."""

    expected: float
    p_value: float


@dataclass(frozen=True, kw_only=True)
class KolmogorovSmirnov:
    statistic: float
    p_value: float


def psi(reference: Any, current: Any, n_bins: Any = 10) -> StabilityIndex:
    """Population stability index of scores [m] against a reference [n], in bins of equal counts of the reference.

    The usual limits of 0.1 and 0.25 (Siddiqi 2006) ignore sample size; without a change it is about chi-squared with
    B - 1 degrees of freedom, times 1/n + 1/m (Yurdakul 2018), which gives the p-value.
    """
    old, new = np.sort(finite("reference", reference)), finite("current", current)
    bins = whole_number("n_bins", n_bins, least=2)
    ranks = [snapped_ceil(m * len(old) / bins) for m in range(1, bins)]
    edges = np.unique(old[np.array(ranks) - 1])
    size = len(edges) + 1
    r, q = (
        (np.bincount(np.searchsorted(edges, x, side="left"), minlength=size) + 0.5) / (len(x) + size / 2)
        for x in (old, new)
    )
    value = float(((r - q) * np.log(r / q)).sum())
    scale = 1 / len(old) + 1 / len(new)
    return StabilityIndex(
        psi=value, n_bins=size, expected=(size - 1) * scale, p_value=float(chdtrc(size - 1, value / scale))
    )


def ks(reference: Any, current: Any) -> KolmogorovSmirnov:
    """The largest gap between two distribution functions, and Kolmogorov's limit for it, conservative with ties."""
    old, new = np.sort(finite("reference", reference)), np.sort(finite("current", current))
    values = np.concatenate([old, new])
    shares = [np.searchsorted(x, values, side="right") / len(x) for x in (old, new)]
    gap = float(np.abs(shares[0] - shares[1]).max())
    z = gap * np.sqrt(len(old) / (len(old) + len(new)) * len(new))
    return KolmogorovSmirnov(statistic=gap, p_value=float(kolmogorov(z)))
