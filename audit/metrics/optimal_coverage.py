"""How good predictions are where a score says to keep them: E-AUoptRC, trust index, rejection report (METHODS 5.1).

`y_true` and `y_pred` are the true and the predicted class of `n` rows, `u` [n] a score, higher when the model is less
sure, or a `Ranking` of it. What is kept is kept in stable order: of two tied rows the later one is rejected first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from demur.audit.metrics.categories import Codes, encode
from demur.audit.metrics.predictive_quality import ClassCounts, class_counts, macro_f1_prefixes
from demur.audit.metrics.ranking import Ranking, Ties
from demur.uncertainty.checks import Array, Mask, finite, fraction, one_of, same_length, snapped_ceil, snapped_floor

Coverage = float | Literal["macro_f1", "accuracy"]
"""A share of the rows, given or as what the predictions reach on all rows."""


def e_auopt_rc(
    y_true: Any,
    y_pred: Any,
    u: Any,
    *,
    c_star: Coverage = "macro_f1",
    risk: Literal["error", "macro_f1"] = "error",
    rule: Literal["mean", "trapezoid"] = "mean",
    ties: Ties = "mean",
) -> float:
    """Area under the risk-coverage curve up to coverage `c_star`, as printed in Khallaf & Sharoff; lower is better.

    `mean` is (1/n) sum over k = 1..floor(c_star n) of the risk of the k surest rows; `trapezoid` integrates over
    coverages from 1/n on. `risk="macro_f1"` is 1 - macro F1, in stable order whatever `ties` says.
    """
    one_of("risk", risk, ("error", "macro_f1"))
    one_of("rule", rule, ("mean", "trapezoid"))
    one_of("ties", ties, ("mean", "stable"))
    rows = _Rows.of(y_true, y_pred, u)
    kept = rows.kept("c_star", c_star)
    if risk == "error":
        curve = rows.ranking.prefix_means(rows.errors, ties=ties)[:kept]
    else:
        first = rows.ranking.order[:kept]
        curve = 1 - macro_f1_prefixes(rows.true[first], rows.predicted[first], rows.n_classes)
    return float((curve.sum() if rule == "mean" else np.trapezoid(curve)) / len(rows))


def excess_auopt_rc(y_true: Any, y_pred: Any, u: Any, *, ties: Ties = "mean") -> float:
    """Area between this risk-coverage curve and a perfect one, over coverages above the accuracy; 0 is best.

    (1/n) sum over k > number correct: up to there a perfect ranking makes no error (Ao et al. 2023).
    """
    rows = _Rows.of(y_true, y_pred, u)
    n, right = len(rows), len(rows) - int(rows.wrong.sum())
    curve = rows.ranking.prefix_means(rows.errors, ties=ties)[right:]
    k = np.arange(right + 1, n + 1)
    return float((curve - (k - right) / k).sum() / n)


def trust_index(y_true: Any, y_pred: Any, u: Any, *, coverage: Coverage = "macro_f1") -> float:
    """Macro F1 of the floor(coverage n) surest rows (TI; TI@95 at 0.95); NaN when nothing is kept."""
    rows = _Rows.of(y_true, y_pred, u)
    return rows.counts_of(rows.kept("coverage", coverage)).macro_f1()


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """What rejecting the `n_rejected` least sure rows does. Undefined numbers are NaN."""

    rate: float
    n_rejected: int
    macro_f1: float
    """Of the rows that are kept."""

    delta_macro_f1: float
    """Kept less all rows; above 0 the rejection helps."""

    rejected_error_precision: float
    """Share of errors among the rejected rows."""

    error_recall: float
    """Share of all errors that is rejected."""

    n_classes_lost: int
    """Classes that only occur among the rejected rows: they leave the mean, and may raise it for no good reason."""


def rejection_report(
    y_true: Any, y_pred: Any, u: Any, *, rates: Sequence[float] = (0.01, 0.05, 0.1, 0.15)
) -> list[Rejection]:
    """Reject the ceil(rate n) least sure rows, for each of `rates` in [0, 1]."""
    shares = [fraction("rates", rate) for rate in finite("rates", rates).tolist()]
    rows = _Rows.of(y_true, y_pred, u)
    return [rows.reject(rate) for rate in shares]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    true: Codes
    predicted: Codes
    n_classes: int
    wrong: Mask
    ranking: Ranking

    @classmethod
    def of(cls, y_true: Any, y_pred: Any, u: Any) -> "_Rows":
        (true, predicted), n_classes = encode(y_true=y_true, y_pred=y_pred)
        ranking = Ranking.by("u", u)
        same_length(y_true=true, u=ranking)
        return cls(true=true, predicted=predicted, n_classes=n_classes, wrong=true != predicted, ranking=ranking)

    def __len__(self) -> int:
        return len(self.wrong)

    @property
    def errors(self) -> Array:
        return self.wrong.astype(np.float64)

    def kept(self, name: str, coverage: Coverage) -> int:
        """How many rows a coverage is: floor(coverage n)."""
        if isinstance(coverage, str):
            one_of(name, coverage, ("macro_f1", "accuracy"))
            coverage = self.counts.macro_f1() if coverage == "macro_f1" else 1 - float(self.wrong.mean())
        return snapped_floor(fraction(name, coverage) * len(self))

    @cached_property
    def counts(self) -> ClassCounts:
        return class_counts(self.true, self.predicted, self.n_classes)

    def counts_of(self, k: int) -> ClassCounts:
        """Count classes among the k surest rows: in all rows, less the others, which are the fewer."""
        others = self.ranking.order[k:]
        return self.counts - class_counts(self.true[others], self.predicted[others], self.n_classes)

    def reject(self, rate: float) -> Rejection:
        m, n_errors = snapped_ceil(rate * len(self)), int(np.count_nonzero(self.wrong))
        kept, rejected = self.counts_of(len(self) - m), self.ranking.order[len(self) - m :]
        caught = int(np.count_nonzero(self.wrong[rejected]))
        return Rejection(
            rate=rate,
            n_rejected=m,
            macro_f1=kept.macro_f1(),
            delta_macro_f1=kept.macro_f1() - self.counts.macro_f1(),
            rejected_error_precision=caught / m if m else np.nan,
            error_recall=caught / n_errors if n_errors else np.nan,
            n_classes_lost=self.counts.n_present - kept.n_present,
        )
