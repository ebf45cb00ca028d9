"""Whether two rankings agree: Spearman, Kendall, and methods compared over metrics (METHODS 5.3).

A numeric argument may be a `Ranking`. A correlation with a constant is undefined, NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from demur.audit.metrics.ranking import Ranking, inner
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, indicators, one_of, same_length


def spearman(a: Any, b: Any) -> float:
    """Pearson correlation of the average ranks of `a` [n] and `b` [n], in [-1, 1] (Spearman 1904)."""
    first, second = Ranking.by("a", a), Ranking.by("b", b)
    same_length(a=first, b=second)
    return _spearman(first, second)


def spearman_pooled(u: Any, correct: Any) -> float:
    """One correlation of scores `u` [m] with 0/1 `correct` [m] over all pairs of row and predicted label.

    What MADE's script computes; below 0 is good, since a score is high where errors are.
    """
    ranking, right = Ranking.by("u", u), indicators("correct", correct, ndim=1)
    same_length(u=ranking, correct=right)
    return _point_biserial(ranking, right)


@dataclass(frozen=True, kw_only=True)
class LabelCorrelations:
    """Spearman correlation per label [L], NaN where it is undefined, and the mean of the others."""

    mean: float
    per_label: Array
    n_labels_used: int


def spearman_per_label(u: Any, correct: Any) -> LabelCorrelations:
    """Correlation of `u` [n, L] with 0/1 `correct` [n, L] within each label (MADE A.5); below 0 is good."""
    scores, right = finite("u", u, ndim=2), indicators("correct", correct)
    if scores.shape != right.shape:
        raise InvalidInput(f"u has shape {scores.shape}, correct {right.shape}")
    columns = zip(scores.T, right.T, strict=True)
    per_label = np.array([_point_biserial(Ranking.by("u", s), r) for s, r in columns])
    used = per_label[~np.isnan(per_label)]
    return LabelCorrelations(
        mean=float(used.mean()) if len(used) else np.nan, per_label=per_label, n_labels_used=len(used)
    )


@dataclass(frozen=True, kw_only=True)
class Kendall:
    """Tau-b in [-1, 1], and the chance of one as far from 0 if the rankings had nothing to do with each other."""

    tau: float
    p_value: float


def kendall_tau_b(a: Any, b: Any) -> Kendall:
    """Kendall's tau-b of `a` [n] and `b` [n], with the two-sided p-value of the normal limit corrected for ties."""
    x, y = finite("a", a), finite("b", b)
    same_length(a=x, b=y)
    if x.min() == x.max() or y.min() == y.max():
        return Kendall(tau=np.nan, p_value=np.nan)
    for first, second in ((x, y), (y, x)):
        low, high = second.min(), second.max()
        if not np.isin(second[:100], (low, high)).all():  # a glance, so that most scores are not read through
            continue
        marked = second == high
        if (marked | (second == low)).all():
            return _kendall_of_flags(Ranking.by("a", first), marked)
    # more than two rows from here on: scipy's p-value divides by zero for two
    result = stats.kendalltau(x, y, method="asymptotic")
    return Kendall(tau=float(result.statistic), p_value=float(result.pvalue))


def benefit_z(values: Mapping[str, Any], directions: Mapping[str, str]) -> dict[str, Array]:
    """Per metric, how many population standard deviations each method is better than the mean method.

    `values` holds one number per method for each metric; `directions` says which way is better: `higher`, `lower`, or
    `zero` for a metric whose target is 0. Without spread every method gets 0 (Khallaf & Sharoff 4.2).
    """
    if not isinstance(values, Mapping) or not isinstance(directions, Mapping) or not values:
        raise InvalidInput("values and directions are not mappings, or empty")
    if set(values) != set(directions):
        raise InvalidInput(f"values and directions name different metrics: {sorted(set(values) ^ set(directions))}")
    numbers = {name: finite(name, row) for name, row in values.items()}
    same_length(**numbers)
    return {name: _benefit_z(row, directions[name]) for name, row in numbers.items()}


def _benefit_z(values: Array, direction: str) -> Array:
    one_of("directions", direction, ("higher", "lower", "zero"))
    benefit = {"higher": values, "lower": -values, "zero": -np.abs(values)}[direction]
    spread = benefit.std()
    if benefit.min() == benefit.max() or spread == 0:  # equal numbers may have a mean that rounds to another
        return np.zeros(len(benefit))
    return np.asarray((benefit - benefit.mean()) / spread)


def _spearman(a: Ranking, b: Ranking) -> float:
    x, y = a.ranks(), b.ranks()
    by_row = np.empty(len(b))
    by_row[b.order] = y
    return _pearson(inner(x, by_row[a.order]), x, y)


def _point_biserial(a: Ranking, marked: Mask) -> float:
    """Spearman with 0/1 values, whose ranks are a straight line of the values: no need to rank them."""
    x, y = a.ranks(), marked[a.order] - np.count_nonzero(marked) / len(marked)
    return _pearson(inner(x, y), x, y)


def _pearson(product: float, x: Array, y: Array) -> float:
    """Return the correlation of centred values; NaN when one is constant."""
    if x[0] == x[-1] or y.min() == y.max():
        return np.nan
    return float(
        np.clip(product / np.sqrt(inner(x, x)) / np.sqrt(inner(y, y)), -1, 1)
    )  # rounding may lead a little beyond


def _kendall_of_flags(ranking: Ranking, marked: Mask) -> Kendall:
    """Kendall with 0/1 values: concordant less discordant pairs is a count of marked rows, in one pass.

    The variance is that of Kendall (1970) with both corrections for ties, as in scipy.stats.kendalltau.
    """
    n, k = len(marked), int(np.count_nonzero(marked))
    inside = np.diff(ranking.running_counts(marked), prepend=0)
    surplus = int(inside @ (ranking.starts + ranking.ends - n))  # per marked row, rows below less rows above
    sizes = (ranking.ends - ranking.starts).astype(np.float64), np.array([k, n - k], dtype=np.float64)
    pairs = [float(np.sum(t * (t - 1))) for t in sizes]
    triples = [float(np.sum(t * (t - 1) * (t - 2))) for t in sizes]
    spread = [float(np.sum(t * (t - 1) * (2 * t + 5))) for t in sizes]
    every = float(n) * (n - 1)
    variance = (every * (2 * n + 5) - sum(spread)) / 18 + pairs[0] * pairs[1] / (2 * every)
    variance += triples[0] * triples[1] / (9 * every * max(n - 2, 1))  # no triples where n is 2
    tau = surplus / np.sqrt(every - pairs[0]) / np.sqrt(every - pairs[1]) * 2
    return Kendall(tau=float(tau), p_value=2 * float(special.ndtr(-abs(surplus) / np.sqrt(variance))))
