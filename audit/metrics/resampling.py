"""The percentile bootstrap (Efron 1979; METHODS 9.3)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.categories import grouped
from demur.audit.metrics.comparison import paired_difference
from demur.audit.metrics.groups import METRICS as UNWEIGHTED
from demur.audit.metrics.groups import split_inputs
from demur.audit.metrics.weighted_calibration import (
    weighted_ace,
    weighted_brier,
    weighted_c_slope,
    weighted_citl,
    weighted_ece,
    weighted_nll,
)
from demur.audit.metrics.weighted_discrimination import (
    weighted_au_prc,
    weighted_error_au_prc,
    weighted_error_roc_auc,
    weighted_roc_auc,
)
from demur.audit.metrics.weighted_quality import weighted_macro_f1
from demur.audit.metrics.weighted_rows import weighted_mean
from demur.audit.metrics.weighted_selective import weighted_n_rc_auc, weighted_prr, weighted_rc_auc
from demur.uncertainty.checks import Array, InvalidInput, fraction, one_of, real_number, same_length, snapped_floor

REPLICATES = 1_999
CELLS_AT_A_TIME = 1 << 22
"""How many of the numbers of times that a row was drawn are in memory together."""

MOST_UNDEFINED = 0.05
"""With a larger share of undefined replicates there is no interval."""


METRICS: dict[str, Callable[..., float]] = {
    **UNWEIGHTED,
    "weighted_mean": weighted_mean,
    "weighted_ece": weighted_ece,
    "weighted_ace": weighted_ace,
    "weighted_brier": weighted_brier,
    "weighted_nll": weighted_nll,
    "weighted_citl": weighted_citl,
    "weighted_c_slope": weighted_c_slope,
    "weighted_roc_auc": weighted_roc_auc,
    "weighted_error_roc_auc": weighted_error_roc_auc,
    "weighted_au_prc": weighted_au_prc,
    "weighted_error_au_prc": weighted_error_au_prc,
    "weighted_rc_auc": weighted_rc_auc,
    "weighted_n_rc_auc": weighted_n_rc_auc,
    "weighted_prr": weighted_prr,
    "weighted_macro_f1": weighted_macro_f1,
    "paired_difference": paired_difference,
}


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Both ends are NaN where there is none."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class BootstrapInterval:
    """The metric of all rows, its interval (NaN where there is none), and of how many replicates it is undefined."""

    estimate: float
    lower: float
    upper: float
    n_undefined: int


def bootstrap(
    metric: str, inputs: Mapping[str, Any], resamples: Any, clusters: Any = None, delta: Any = 0.05
) -> BootstrapInterval:
    """Compute a metric again on each of the samples [B], lists of positions of all rows, labelled or not.

    `inputs` are the metric's arguments: lists and arrays are split by row, anything else is passed on. With `clusters`
    [n], such as patients, positions are those of clusters in the order in which they first appear, and all rows of a
    drawn one enter. For sums over rows `resampled` is faster.
    """
    one_of("metric", metric, tuple(METRICS))
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    function = METRICS[metric]
    columns, options = split_inputs(function, inputs)
    if not columns:
        raise InvalidInput("inputs has no list")
    n = same_length(**columns)
    members: Sequence[NDArray[np.intp]] | None = None
    if clusters is not None:
        codes, names = grouped("clusters", clusters)
        same_length(clusters=codes, **columns)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
        n = len(names)
    values = []
    for sample in _samples(resamples, n):
        rows = sample if members is None else np.concatenate([members[position] for position in sample])
        values.append(function(**{name: column[rows] for name, column in columns.items()}, **options))
    replicates = np.array(values, dtype=np.float64)
    interval = percentile_interval(replicates, delta=delta)
    return BootstrapInterval(
        estimate=function(**columns, **options),
        lower=interval.lower,
        upper=interval.upper,
        n_undefined=int(np.isnan(replicates).sum()),
    )


def _samples(resamples: Any, n: int) -> list[NDArray[np.intp]]:
    if not isinstance(resamples, Sequence | np.ndarray) or isinstance(resamples, str | bytes) or not len(resamples):
        raise InvalidInput("resamples is not a list of lists of positions")
    samples = []
    for sample in resamples:
        try:
            positions = np.asarray(sample)
        except ValueError as error:
            raise InvalidInput(f"resamples holds something else than lists: {error}") from None
        if positions.ndim != 1 or positions.dtype.kind not in "iu" or not positions.size:
            raise InvalidInput("resamples holds something else than lists of positions, or an empty one")
        if positions.min() < 0 or positions.max() >= n:
            raise InvalidInput(f"resamples holds a position outside 0 to {n - 1}")
        samples.append(positions)
    return samples


def resampled(
    columns: Array,
    statistic: Callable[[Array], Array],
    *,
    rng: np.random.Generator,
    replicates: int = REPLICATES,
    alike: NDArray[np.intp] | None = None,
) -> Array:
    """Return [replicates, s]: a statistic made of sums over rows, on samples of `n` rows drawn with replacement.

    `statistic` takes the sums, [b, p] from `columns` [n, p], and returns [b, s]: a sample enters by how often each row
    was drawn, so no row is ever copied. Where many rows are the same, `columns` may hold each of them once, and
    `alike` [n] where each row is found in it.
    """
    n = len(columns) if alike is None else len(alike)
    block = max(1, CELLS_AT_A_TIME // n)
    parts = []
    for start in range(0, replicates, block):
        size = min(block, replicates - start)
        draws = (rng.integers(n, size=n) for _ in range(size))
        rows = draws if alike is None else (alike[drawn] for drawn in draws)
        times = np.stack([np.bincount(drawn, minlength=len(columns)) for drawn in rows])
        parts.append(statistic(times.astype(np.float64) @ columns))
    return np.concatenate(parts)


def resampled_rows(
    n: int, measure: Callable[[NDArray[np.intp]], Mapping[str, float]], *, rng: np.random.Generator, replicates: int
) -> dict[str, Interval]:
    """Return the percentile interval of everything that `measure` finds on positions of `n` rows, drawn with
    replacement. For what depends on ranks; sums over rows are many times faster by `resampled`."""
    drawn = [measure(rng.integers(n, size=n)) for _ in range(replicates)]
    return {name: percentile_interval(np.array([one[name] for one in drawn])) for name in drawn[0]}


def percentile_interval(values: Array, *, delta: float = 0.05) -> Interval:
    """The k-th smallest and k-th largest of the B defined replicates, k = floor(delta/2 (B + 1)).

    No interval where k = 0, or where more than 5% of the replicates are undefined.
    """
    defined = np.sort(values[~np.isnan(values)])
    k = snapped_floor(delta / 2 * (len(defined) + 1))
    if k == 0 or len(values) - len(defined) > MOST_UNDEFINED * len(values):
        return Interval(lower=np.nan, upper=np.nan)
    return Interval(lower=float(defined[k - 1]), upper=float(defined[-k]))
