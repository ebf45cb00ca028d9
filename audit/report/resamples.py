"""The bootstrap over units, done once for all numbers of a report (Efron 1979; METHODS 9.3)."""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm, t

from demur.audit.metrics.resampling import Interval, percentile_interval
from demur.audit.report.plan import Settings
from demur.uncertainty.checks import Array

AT_A_TIME = 128
"""Resamples that are drawn together; after each, it is told how far it is."""

FEWEST_UNITS = 20
"""Fewer independent units say nothing of how much they vary."""

Progress = Callable[[int, int], None]
"""Is told how much is done, and of how much."""


def unheard(_done: int, _total: int) -> None:
    """For whoever does not want to know."""


class Resamples:
    """How often each unit was drawn, in each resample."""

    def __init__(
        self, n_units: int, settings: Settings, progress: Progress = unheard, *, n_labelled: int | None = None
    ) -> None:
        """`n_labelled` says how many of the units have a label, where that is not all of them."""
        rng = np.random.default_rng(settings.seed)
        self.delta = settings.delta
        self.possible = (n_units if n_labelled is None else n_labelled) >= FEWEST_UNITS and settings.replicates > 0
        self._times = np.zeros((settings.replicates if self.possible else 0, n_units))
        for start in range(0, len(self._times), AT_A_TIME):
            block = self._times[start : start + AT_A_TIME]
            drawn = rng.integers(n_units, size=block.shape) + np.arange(len(block))[:, np.newaxis] * n_units
            block[:] = np.bincount(drawn.ravel(), minlength=block.size).reshape(block.shape)
            progress(start + len(block), len(self._times))

    def of(self, sums: Array) -> Array:
        """[b, ...], the sums [g, ...] of each resample."""
        flat = sums.reshape(len(sums), -1)
        return np.asarray((self._times @ flat).reshape(len(self._times), *sums.shape[1:]))

    def interval(self, values: Array, shift: float = 0.0) -> Interval:
        """Return the interval of a statistic [b]. `shift` moves it from the value that was resampled to the reported
        one."""
        if not self.possible:
            return Interval(lower=np.nan, upper=np.nan)
        found = percentile_interval(values, delta=self.delta)
        return Interval(lower=found.lower + shift, upper=found.upper + shift)

    def intervals(self, values: Array) -> tuple[Array, Array]:
        """[c] each, lower and upper ends of statistics [b, c]."""
        both = [self.interval(column) for column in values.T]
        return np.array([one.lower for one in both]), np.array([one.upper for one in both])


def widened(interval: Interval, value: float, n: float, delta: float) -> Interval:
    """The interval of a statistic that a small number `n` of independent rows carries; NaN for n <= 2.

    Each end is as much farther from the value as the t-distribution reaches farther than the normal one: resamples of
    few rows vary less than the rows do, and how much is itself uncertain (Hesterberg 2015, who moves the percentiles).
    """
    if not n > 2:
        return Interval(lower=np.nan, upper=np.nan)
    factor = 1.0 if np.isinf(n) else t.ppf(1 - delta / 2, n - 1) * np.sqrt(n / (n - 1)) / norm.ppf(1 - delta / 2)
    return Interval(
        lower=min(interval.lower, value - float(factor) * (value - interval.lower)),
        upper=max(interval.upper, value + float(factor) * (interval.upper - value)),
    )
