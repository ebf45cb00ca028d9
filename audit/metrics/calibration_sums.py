"""Calibration errors as functions of sums over rows, so that a resampled row only counts once more.

They are those of `audit/calibration.py`; ACE is missing, whose bins move with the rows.
"""

import numpy as np

from demur.audit.metrics.calibration import bin_numbers
from demur.uncertainty.checks import Array

BINS, INDEX_BINS = 15, 10
"""Of ECE, and of the mean of ECE and Brier score."""

SMALLEST_LOG = float(np.log(1e-15))


def columns(confidence: Array, quality: Array) -> Array:
    """[n, WIDTH], what each row adds to the sums. `quality` may be a share between 0 and 1."""
    gap = quality - confidence
    apart = confidence - confidence.mean()  # so that squares of tiny differences do not vanish
    with np.errstate(divide="ignore"):  # ln 0 is -inf, which the floor replaces
        logs = np.maximum(np.log(confidence), SMALLEST_LOG), np.maximum(np.log1p(-confidence), SMALLEST_LOG)
    loss = -(quality * logs[0] + (1 - quality) * logs[1])
    in_bin = bin_numbers(confidence, BINS, "left")[:, np.newaxis] == np.arange(BINS)
    in_index_bin = bin_numbers(confidence, INDEX_BINS, "left")[:, np.newaxis] == np.arange(INDEX_BINS)
    return np.column_stack(
        [
            *(np.ones(len(gap)), gap, np.square(gap), loss, apart, np.square(apart), apart * quality, quality),
            in_bin,
            in_bin * gap[:, np.newaxis],
            in_index_bin * gap[:, np.newaxis],
        ]
    ).astype(np.float64)


WIDTH = 8 + 2 * BINS + INDEX_BINS


def values(sums: Array) -> dict[str, Array]:
    """[b] for each name, from the sums [b, WIDTH] of the columns."""
    n, gap, squared, loss, apart, apart_squared, product, quality = sums[:, :8].T
    counts, gaps, index_gaps = np.split(sums[:, 8:], [BINS, 2 * BINS], axis=1)
    brier = squared / n
    spread = apart_squared - np.square(apart) / n
    with np.errstate(invalid="ignore", divide="ignore"):  # empty bins; a confidence that is constant
        widest = np.nanmax(np.where(counts > 0, np.abs(gaps) / counts, np.nan), axis=1)
        slope = np.where(spread > 1e-12 * n, (product - apart * quality / n) / spread, np.nan)
    return {
        "ece": np.abs(gaps).sum(axis=1) / n,
        "mce": widest,
        "brier": brier,
        "nll": loss / n,
        "ece_brier_mean": (np.abs(index_gaps).sum(axis=1) / n + brier) / 2,
        "citl": -gap / n,
        "c_slope": slope,
    }
