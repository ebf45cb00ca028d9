"""Whether two rankings agree: Spearman, Kendall, and methods compared over metrics (METHODS 5.3).

A numeric argument may be a `Ranking`. A correlation with a constant is undefined, NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from audit.ranking import Ranking
from uncertainty.checks import Array, InvalidInput, finite, one_of, outcomes, same_length


def spearman(a: Any, b: Any) -> float:
    """Pearson correlation of the average ranks of `a` [n] and `b` [n], in [-1, 1] (Spearman 1904)."""
    first, second = Ranking.by("a", a), Ranking.by("b", b)
    same_length(a=first, b=second)
    return _spearman(first, second)


def spearman_pooled(u: Any, correct: Any) -> float:
    """One correlation of scores `u` [m] with 0/1 `correct` [m] over all pairs of row and predicted label.

    What MADE's script computes; below 0 is good, since a score is high where errors are.
    """
    ranking, right = Ranking.by("u", u), outcomes("correct", correct)
    same_length(u=ranking, correct=right)
    return _spearman(ranking, Ranking.by("correct", right))


@dataclass(frozen=True, kw_only=True)
class LabelCorrelations:
    """Spearman correlation per label [L], NaN where it is undefined, and the mean of the others."""

    mean: float
    per_label: Array
    n_labels_used: int


def spearman_per_label(u: Any, correct: Any) -> LabelCorrelations:
    """Correlation of `u` [n, L] with 0/1 `correct` [n, L] within each label (MADE A.5); below 0 is good."""
    scores, right = finite("u", u, ndim=2), outcomes("correct", correct, ndim=2)
    if scores.shape != right.shape:
        raise InvalidInput(f"u has shape {scores.shape}, correct {right.shape}")
    columns = zip(scores.T, right.T, strict=True)
    per_label = np.array([_spearman(Ranking.by("u", s), Ranking.by("correct", r)) for s, r in columns])
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
    n = same_length(a=x, b=y)
    if x.min() == x.max() or y.min() == y.max():
        return Kendall(tau=np.nan, p_value=np.nan)
    if n == 2:  # scipy's correction for ties divides by n - 2; two different pairs are one standard deviation away
        return Kendall(tau=1.0 if (x[0] < x[1]) == (y[0] < y[1]) else -1.0, p_value=2 * float(special.ndtr(-1.0)))
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
    if benefit.min() == benefit.max():
        return np.zeros(len(benefit))
    return np.asarray((benefit - benefit.mean()) / benefit.std())


def _spearman(a: Ranking, b: Ranking) -> float:
    if len(a.starts) == 1 or len(b.starts) == 1:
        return np.nan
    x, y = a.centred_ranks(), b.centred_ranks()
    return float(np.clip(x @ y / np.sqrt(x @ x) / np.sqrt(y @ y), -1, 1))  # rounding may lead a little beyond
