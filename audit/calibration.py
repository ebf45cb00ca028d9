"""Whether a confidence means what it says: bins, expected calibration error, Brier score (METHODS 5.2)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from uncertainty.checks import Array, InvalidInput, outcomes, same_length, unit_interval

Closed = Literal["left", "right"]


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Rows whose confidence falls in one of the M equal intervals; means are NaN when it is empty."""

    count: int
    confidence: float
    accuracy: float


def calibration_bins(confidence: Any, outcome: Any, *, n_bins: int = 15, closed: Closed = "left") -> list[Bin]:
    """Return `n_bins` bins of `confidence` [n] in [0, 1] against 0/1 `outcome` [n].

    Bins are [m/M, (m+1)/M), the last one closed; `closed="right"` gives (m/M, (m+1)/M], with 0 in the first. Edges
    are the quotients m/M themselves: those of numpy.linspace and int(p M) put 0.3 or 0.6 into the wrong bin.
    """
    c, y = _pair(confidence, outcome)
    if n_bins < 1:
        raise InvalidInput(f"n_bins is {n_bins}; it is at least 1")
    if closed not in ("left", "right"):
        raise InvalidInput(f"closed is {closed!r}; it is 'left' or 'right'")
    inner = np.arange(1, n_bins) / n_bins
    member = np.searchsorted(inner, c, side="right" if closed == "left" else "left")
    counts = np.bincount(member, minlength=n_bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 in an empty bin is the NaN that is meant
        mean_confidence = np.bincount(member, weights=c, minlength=n_bins) / counts
        accuracy = np.bincount(member, weights=y, minlength=n_bins) / counts
    return [
        Bin(count=int(k), confidence=float(m), accuracy=float(a))
        for k, m, a in zip(counts, mean_confidence, accuracy, strict=True)
    ]


def ece(confidence: Any, outcome: Any, *, n_bins: int = 15, closed: Closed = "left") -> float:
    """Expected calibration error: the gap between confidence and accuracy, averaged over rows. 0 is best."""
    bins = [b for b in calibration_bins(confidence, outcome, n_bins=n_bins, closed=closed) if b.count]
    n = sum(b.count for b in bins)
    return sum(b.count / n * abs(b.accuracy - b.confidence) for b in bins)


def brier(confidence: Any, outcome: Any) -> float:
    """Mean squared gap between confidence and outcome (Brier 1950). 0 is best."""
    c, y = _pair(confidence, outcome)
    return float(np.mean(np.square(c - y)))


def _pair(confidence: Any, outcome: Any) -> tuple[Array, Array]:
    c, y = unit_interval("confidence", confidence), outcomes("outcome", outcome)
    same_length(confidence=c, outcome=y)
    return c, y
