"""The bootstrap over units, done once for all numbers of a report (Efron 1979; METHODS 9.3)."""

from collections.abc import Callable

import numpy as np
from scipy.stats import norm, t

from audit.metrics.resampling import Interval, percentile_interval
from audit.report.plan import Settings
from uncertainty.checks import Array

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
        """Of the units `n_labelled` have a label, where that is not all of them."""
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

    def interval(self, values: Array, shift: float = 0.0, *, errors: float = np.inf) -> Interval:
        """Of a statistic [b]; `shift` moves it from the value that was resampled to the one that is reported. It is
        made wider where what varies is a small number of `errors`."""
        if not self.possible or not errors > 1:
            return Interval(lower=np.nan, upper=np.nan)
        found = percentile_interval(values, delta=expanded(self.delta, errors))
        return Interval(lower=found.lower + shift, upper=found.upper + shift)

    def intervals(self, values: Array) -> tuple[Array, Array]:
        """[c] each, lower and upper ends of statistics [b, c]."""
        both = [self.interval(column) for column in values.T]
        return np.array([one.lower for one in both]), np.array([one.upper for one in both])


def expanded(delta: float, n: float) -> float:
    """The error level at which percentiles of resamples of `n` > 1 independent rows are to be read so that what comes
    out has the level `delta`: samples of few rows vary less than the rows do, and their spread is itself uncertain
    (the expanded percentile interval of Hesterberg 2015)."""
    if np.isinf(n):
        return delta
    return float(2 * norm.sf(t.ppf(1 - delta / 2, n - 1) * np.sqrt(n / (n - 1))))
