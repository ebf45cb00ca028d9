"""What ratings of a tournament are worth where labels are known: areas, the best cut, and rating to probability."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.discrimination import au_prc
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.resampling import Interval, resampled_rows
from demur.audit.metrics.roc_interval import error_roc_interval
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, indicators, one_of, same_length
from demur.uncertainty.isotonic import IsotonicMap, fit_isotonic

Criterion = Literal["f1", "youden"]
CRITERIA = ("f1", "youden")

CELLS, FEWEST_REPLICATES, MOST_REPLICATES = 8_000_000, 99, 999
"""Of average precision, which has to be computed anew for each sample of rows."""


@dataclass(frozen=True, kw_only=True)
class Interval95:
    """A number and its 95% interval, whose ends are NaN where there is none."""

    value: float
    lower: float
    upper: float

    @classmethod
    def within(cls, value: float, interval: Interval) -> "Interval95":
        return cls(value=value, lower=interval.lower, upper=interval.upper)


@dataclass(frozen=True, kw_only=True)
class RatingCut:
    """A row is positive from this rating on. Chosen on the rows that it is measured on, so new rows do a little worse.

    Its rating lies midway between the two that it parts.
    """

    rating: float
    criterion: Criterion
    value: float
    """Of the criterion: F1, or Youden's J = sensitivity + specificity - 1 (1950)."""

    precision: Interval95
    recall: Interval95


@dataclass(frozen=True, kw_only=True)
class RatingMeasures:
    """How well ratings order labelled rows. The intervals take rows as drawn one by one, though ratings depend on each
    other."""

    n: int
    n_positive: int
    auroc: Interval95
    """By DeLong; a higher rating means more surely positive, so nothing is reversed (TOUR)."""

    auprc: Interval95
    """Average precision, from resampled rows; chance is the share of positives."""

    cut: RatingCut
    to_probability: IsotonicMap
    """From a rating of this tournament to the share of positives: fitted on all of these rows."""


def measure_ratings(
    ratings: Any, positive: Any, *, criterion: Criterion = "f1", rng: np.random.Generator
) -> RatingMeasures:
    """Measure `ratings` [n] by what is `positive` [n]. Raises `InvalidInput` where only one of the labels occurs."""
    scores, truth = finite("ratings", ratings), indicators("positive", positive, ndim=1)
    same_length(ratings=scores, positive=truth)
    n = len(scores)
    if truth.all() or not truth.any():
        raise InvalidInput("all labelled rows have one and the same label: nothing can be told apart")
    area = error_roc_interval(~truth, scores)  # it finds "errors", which here are the positive rows

    def measured(rows: NDArray[np.intp]) -> dict[str, float]:
        return {"auprc": au_prc(truth[rows], scores[rows])}

    replicates = min(max(CELLS // n, FEWEST_REPLICATES), MOST_REPLICATES)
    precision = resampled_rows(n, measured, rng=rng, replicates=replicates)["auprc"]
    return RatingMeasures(
        n=n,
        n_positive=int(truth.sum()),
        auroc=Interval95(value=area.value, lower=area.lower, upper=area.upper),
        auprc=Interval95.within(au_prc(truth, scores), precision),
        cut=best_cut(scores, truth, criterion=criterion),
        to_probability=fit_isotonic(scores, truth.astype(np.float64)),
    )


def best_cut(ratings: Array, positive: Mask, *, criterion: Criterion = "f1") -> RatingCut:
    """The cut with the highest F1 or J among all; of equals the highest one. Both labels must occur."""
    one_of("criterion", criterion, CRITERIA)
    order = np.argsort(-ratings, kind="stable")
    ranked, truth = ratings[order], positive[order]
    ends = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))  # the last row of each distinct rating
    hits, taken = np.cumsum(truth)[ends], ends + 1
    positives, negatives = int(truth.sum()), int((~truth).sum())
    f1, youden = 2 * hits / (taken + positives), hits / positives - (taken - hits) / negatives
    values = f1 if criterion == "f1" else youden
    best = int(values.argmax())
    last = int(ends[best])
    below = ranked[last + 1] if last + 1 < len(ranked) else ranked[last]
    found, told = int(hits[best]), int(taken[best])
    return RatingCut(
        rating=float((ranked[last] + below) / 2),
        criterion=criterion,
        value=float(values[best]),
        precision=Interval95.within(found / told, clopper_pearson(found, told)),
        recall=Interval95.within(found / positives, clopper_pearson(found, positives)),
    )
