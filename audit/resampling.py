"""The percentile bootstrap (Efron 1979; METHODS 9.3), of statistics that are made of sums over rows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from uncertainty.checks import Array, snapped_floor

REPLICATES = 1_999
CELLS_AT_A_TIME = 1 << 22
"""How many of the numbers of times that a row was drawn are in memory together."""

MOST_UNDEFINED = 0.05
"""With a larger share of undefined replicates there is no interval."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Both ends are NaN where there is none."""

    lower: float
    upper: float


def resampled(
    columns: Array,
    statistic: Callable[[Array], Array],
    *,
    rng: np.random.Generator,
    replicates: int = REPLICATES,
) -> Array:
    """Return [replicates, s]: the statistic on as many samples, each of `n` rows drawn with replacement.

    `statistic` takes sums over rows, [b, p] from `columns` [n, p], and returns [b, s]: a sample enters by how often
    each row was drawn, so no row is ever copied.
    """
    n = len(columns)
    block = max(1, CELLS_AT_A_TIME // n)
    parts = []
    for start in range(0, replicates, block):
        size = min(block, replicates - start)
        times = np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(size)])
        parts.append(statistic(times.astype(np.float64) @ columns))
    return np.concatenate(parts)


def percentile_interval(values: Array, *, delta: float = 0.05) -> Interval:
    """The k-th smallest and k-th largest of the B defined replicates, k = floor(delta/2 (B + 1)).

    No interval where k = 0, or where more than 5% of the replicates are undefined.
    """
    defined = np.sort(values[~np.isnan(values)])
    k = snapped_floor(delta / 2 * (len(defined) + 1))
    if k == 0 or len(values) - len(defined) > MOST_UNDEFINED * len(values):
        return Interval(lower=np.nan, upper=np.nan)
    return Interval(lower=float(defined[k - 1]), upper=float(defined[-k]))
