"""Whether a confidence means what it says: bins, calibration errors, proper scores, slope (METHODS 5.2).

`confidence` [n] lies in [0, 1], `outcome` [n] is 1 where the prediction was right (or the label present), else 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.ranking import Ranking
from demur.uncertainty.checks import (
    Array,
    fraction,
    indicators,
    one_of,
    outcomes,
    same_length,
    unit_interval,
    whole_number,
)
from demur.uncertainty.tally import per_column

Closed = Literal["left", "right"]

BLOCK = 1 << 13
"""Rows that are worked on together."""


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
    return binned(*_pair(confidence, outcome), n_bins=n_bins, closed=closed)


def binned(confidence: Array, outcome: Array, *, n_bins: int = 15, closed: Closed = "left") -> list[Bin]:
    """Sort into bins as `calibration_bins` does, unchecked. An `outcome` may also be a share between 0 and 1."""
    counts, sure, right = _bin_sums(confidence, outcome, n_bins, closed)
    with np.errstate(invalid="ignore"):  # 0 / 0 in an empty bin is the NaN that is meant
        means = zip(counts.tolist(), (sure / counts).tolist(), (right / counts).tolist(), strict=True)
    return [Bin(count=k, confidence=c, accuracy=a) for k, c, a in means]


def ece(confidence: Any, outcome: Any, *, n_bins: int = 15, closed: Closed = "left") -> float:
    """Expected calibration error: the gap between confidence and accuracy, averaged over rows. 0 is best."""
    counts, sure, right = _bin_sums(*_pair(confidence, outcome), n_bins, closed)
    return float(np.abs(right - sure).sum() / counts.sum())


def share_gap(expected: Array, shares: Array, *, n_bins: int = 15) -> float:
    """Return the calibration error of forecasts [n] of a share in [0, 1], such as the Jaccard similarity of label
    sets."""
    counts, sure, right = _bin_sums(expected, shares, n_bins, "left")
    return float(np.abs(right - sure).sum() / counts.sum())


def mce(confidence: Any, outcome: Any, *, n_bins: int = 15, closed: Closed = "left") -> float:
    """Maximum calibration error: the largest gap of a bin that is not empty."""
    counts, sure, right = _bin_sums(*_pair(confidence, outcome), n_bins, closed)
    used = counts > 0
    return float((np.abs(right - sure)[used] / counts[used]).max())


def ace(confidence: Any, outcome: Any, *, n_bins: int = 10, ranking: Ranking | None = None) -> float:
    """Adaptive calibration error: as ECE, in bins of equal mass by rank. 0 is best.

    Bin m holds the sorted places floor(m n/M) .. floor((m+1) n/M) - 1; with n < M some stay empty. Tied confidences
    carry the mean outcome of their tie group, so the value does not depend on row order. `ranking` is that of
    `confidence`, when it is there already.
    """
    c, y = _pair(confidence, outcome)
    n, m = len(c), whole_number("n_bins", n_bins, least=1)
    ranking = Ranking.by("confidence", c) if ranking is None else ranking
    same_length(confidence=c, ranking=ranking)
    gaps = ranking.ranked(y - c)  # inside a tie group all confidences are equal, so only outcomes are averaged
    starts = np.unique(np.arange(m) * n // m)
    return float(np.abs(np.add.reduceat(gaps, starts)).sum() / n)


def brier(confidence: Any, outcome: Any) -> float:
    """Mean squared gap between confidence and outcome (Brier 1950). 0 is best."""
    c, y = _pair(confidence, outcome)
    return sum(float((gap := p - q) @ gap) for p, q in _blocks(c, y)) / len(c)


def nll(confidence: Any, outcome: Any, *, eps: float = 1e-15) -> float:
    """Mean of -ln max(eps, probability of the outcome), in nats; 0 is best.

    The probability of outcome 0 is 1 - c, its logarithm taken by log1p: 1 - c alone would round a small c away.
    """
    c, y = _pair(confidence, outcome)
    floor = np.log(fraction("eps", eps, open_low=True))
    total = 0.0
    with np.errstate(divide="ignore"):  # ln 0 is -inf, which the floor replaces
        for p, q in _blocks(c, y):
            happened = q == 1
            for logs in (np.log(p[happened]), np.log1p(-p[~happened])):
                total -= float(np.maximum(logs, floor).sum())
    return total / len(c)


def ece_brier_mean(confidence: Any, outcome: Any, *, n_bins: int = 10) -> float:
    """Mean of ECE and Brier score, the index of Testoni & Calixto (4.3). 0 is best."""
    return (ece(confidence, outcome, n_bins=n_bins) + brier(confidence, outcome)) / 2


def citl(confidence: Any, outcome: Any) -> float:
    """Calibration in the large: mean confidence less mean outcome; above 0 is over-confident.

    The linear version of Khallaf & Sharoff, not the intercept of a logistic recalibration.
    """
    c, y = _pair(confidence, outcome)
    return float(c.mean() - y.mean())


def c_slope(confidence: Any, outcome: Any) -> float:
    """Least-squares slope of outcome on confidence: 1 is ideal, below 1 over-confident; NaN if confidence is constant.

    The linear version of Khallaf & Sharoff, not the slope of a logistic recalibration. It may be negative.
    """
    c, y = _pair(confidence, outcome)
    span = c.max() - c.min()
    if span == 0:
        return np.nan
    middle, product, square = c.mean(), 0.0, 0.0
    for p, q in _blocks(c, y):
        spread = (p - middle) / span  # of order 1, so that squares of tiny differences do not vanish
        product += float(spread @ q)
        square += float(spread @ spread)
    return float(product / square / span)


@dataclass(frozen=True, kw_only=True)
class EcePlus:
    """Gap between the probabilities of present labels and 1, per label [L] and as their mean."""

    ece_plus: float
    per_label: Array
    """NaN for a label that is never present."""

    n_labels_used: int


def ece_plus(probs: Any, targets: Any) -> EcePlus:
    """Per label, 1 less the mean of `probs` [n, L] over the rows in which 0/1 `targets` [n, L] has it; then the mean.

    Labels that are never present are left out (MADE). A label that the model did not score has probability 0.
    """
    p, present = unit_interval("probs", probs, ndim=2), indicators("targets", targets)
    same_length(probs=p, targets=present)
    same_length(labels_of_probs=p.T, labels_of_targets=present.T)
    counts = per_column(present)
    used = counts > 0
    per_label = np.full(len(counts), np.nan)
    per_label[used] = 1 - np.einsum("ij,ij->j", p, present)[used] / counts[used]
    return EcePlus(
        ece_plus=float(per_label[used].mean()) if used.any() else np.nan,
        per_label=per_label,
        n_labels_used=int(used.sum()),
    )


def bin_numbers(confidence: Array, n_bins: int, closed: Closed) -> NDArray[np.intp]:
    """Return [n]: the bin of each confidence, by comparison with the quotients m/M.

    A product finds the bin or its neighbour; one comparison on each side settles which.
    """
    edges = np.arange(n_bins + 1) / n_bins
    lower, upper = edges[:-1].copy(), edges[1:].copy()
    number = (confidence * n_bins).astype(np.intp)
    np.minimum(number, n_bins - 1, out=number)
    if closed == "left":
        upper[-1] = np.inf
        number += confidence >= upper[number]
        number -= confidence < lower[number]
    else:
        lower[0] = -np.inf
        number += confidence > upper[number]
        number -= confidence <= lower[number]
    return number


def _bin_sums(c: Array, y: Array, n_bins: int, closed: Closed) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any]]:
    """Per bin: how many rows, the sum of their confidences, the sum of their outcomes."""
    m = whole_number("n_bins", n_bins, least=1)
    one_of("closed", closed, ("left", "right"))
    counts, sure, right = np.zeros(m, dtype=np.intp), np.zeros(m), np.zeros(m)
    for p, q in _blocks(c, y):
        number = bin_numbers(p, m, closed)
        counts += np.bincount(number, minlength=m)
        sure += np.bincount(number, weights=p, minlength=m)
        right += np.bincount(number, weights=q, minlength=m)
    return counts, sure, right


def _blocks(c: Array, y: Array) -> Iterator[tuple[Array, Array]]:
    """Parts of both that fit into the processor's cache with what is computed from them."""
    return ((c[start : start + BLOCK], y[start : start + BLOCK]) for start in range(0, len(c), BLOCK))


def _pair(confidence: Any, outcome: Any) -> tuple[Array, Array]:
    c, y = unit_interval("confidence", confidence), outcomes("outcome", outcome)
    same_length(confidence=c, outcome=y)
    return c, y
