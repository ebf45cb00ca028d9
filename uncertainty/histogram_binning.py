"""Histogram binning: each bin of scores gets the share that was right in it (Zadrozny & Elkan 2001)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from demur.uncertainty.checks import Array, one_of, outcomes, relative_weights, unit_interval, whole_number

Strategy = Literal["uniform", "quantile"]


@dataclass(frozen=True, kw_only=True)
class HistogramMap:
    """A step function. A score belongs to the first bin whose `upper` it does not pass, else to the last one."""

    reads: ClassVar[str] = "probability"

    upper: Array
    """[B - 1], ascending: where all bins but the last end."""

    values: Array
    """[B], share right in each bin."""

    closed: str
    """Which bin a score on an end belongs to: `left`, the one above; `right`, the one below."""

    def confidence(self, evidence: Array) -> Array:
        """Probability of being right for each probability in `evidence`; NaN stays NaN."""
        p = np.asarray(evidence, dtype=np.float64)
        bins = np.searchsorted(self.upper, p, side="right" if self.closed == "left" else "left")
        return np.where(np.isnan(p), np.nan, self.values[bins])


@dataclass(frozen=True, kw_only=True)
class HistogramBinning:
    """The calibrator as it is configured. It reads 1 - score, which must be a probability."""

    reads: ClassVar[str] = "probability"

    n_bins: int = 10
    strategy: Strategy = "uniform"

    def __post_init__(self) -> None:
        whole_number("n_bins", self.n_bins, least=1)
        one_of("strategy", self.strategy, ("uniform", "quantile"))

    def fit(self, evidence: Array, target: Array, weights: Array | None = None) -> HistogramMap:
        return fit_histogram(evidence, target, weights=weights, n_bins=self.n_bins, strategy=self.strategy)


def fit_histogram(
    probs: Any, targets: Any, *, weights: Any = None, n_bins: int = 10, strategy: Strategy = "uniform"
) -> HistogramMap:
    """Bin `probs` [n] and average 0/1 `targets` [n], each counting by its weight, in each bin.

    `uniform`: equal intervals [m/M, (m+1)/M), the last one closed; an empty bin stands for its middle.
    `quantile`: bins of equally many rows by rank; a tie group is taken whole into the bin that it starts in.
    """
    p, y = unit_interval("fit_probs", probs), outcomes("fit_targets", targets)
    w = relative_weights(weights, fit_probs=p, fit_targets=y)
    n = len(p)
    whole_number("n_bins", n_bins, least=1)
    one_of("strategy", strategy, ("uniform", "quantile"))
    if strategy == "uniform":
        upper = np.arange(1, n_bins) / n_bins
        bins = np.searchsorted(upper, p, side="right")
        mass = np.bincount(bins, weights=w, minlength=n_bins)
        middles = (np.arange(n_bins) + 0.5) / n_bins
        right = np.bincount(bins, weights=w * y, minlength=n_bins)
        values = np.divide(right, mass, out=middles, where=mass > 0)
        return HistogramMap(upper=upper, values=values, closed="left")
    order = np.argsort(p, kind="stable")
    ranked, y, w = p[order], y[order], w[order]
    first_of_tie = np.searchsorted(ranked, ranked, side="left")
    cuts = np.arange(1, n_bins) * n // n_bins  # floor(m n / M): where bins begin
    members = np.searchsorted(cuts, first_of_tie, side="right")
    filled = np.flatnonzero(np.bincount(members, minlength=n_bins))
    ends = np.searchsorted(members, filled, side="right") - 1
    values = np.array([np.average(y[members == b], weights=w[members == b]) for b in filled])
    return HistogramMap(upper=ranked[ends][:-1], values=values, closed="right")
