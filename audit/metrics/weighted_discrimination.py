"""Whether a score tells errors from right answers, from partial labels (METHODS 9.2).

Labels [n] are 0 or 1 where a row has one; `weights` [n] are 1 / label probability, 0 without a label. Labels are drawn
independently, so a pair of rows is drawn with the product of their probabilities, and weighs the product of their
weights. Scores are checked in every row and may be given as a `Ranking`, so that several metrics share one sort.
"""

from typing import Any, Literal

import numpy as np

from demur.audit.metrics.ranking import Ranking, inner
from demur.audit.metrics.weighted_rows import known_values, relative
from demur.uncertainty.checks import Array, one_of, outcomes


def weighted_roc_auc(labels: Any, scores: Any, weights: Any) -> float:
    """Chance that a positive outscores a negative, ties counting a half; NaN when one class has no label."""
    y, w, ranking = _columns("labels", labels, "scores", scores, weights)
    return _roc_auc(w * y, w * (1 - y), ranking)


def weighted_error_roc_auc(correct: Any, u: Any, weights: Any) -> float:
    """ROC-AUC of the score `u` [n] for finding errors among 0/1 `correct` [n]; 1/2 is chance."""
    y, w, ranking = _columns("correct", correct, "u", u, weights)
    return _roc_auc(w * (1 - y), w * y, ranking)


def weighted_au_prc(labels: Any, scores: Any, weights: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve, both from weights; NaN without a positive.

    `step` is average precision; `trapezoid` joins the points by lines, from (0, 1) on, and is optimistic.
    """
    y, w, ranking = _columns("labels", labels, "scores", scores, weights)
    return _au_prc(w * y, w, ranking, rule)


def weighted_error_au_prc(correct: Any, u: Any, weights: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve of `u` [n] with the errors as positives; NaN without errors."""
    y, w, ranking = _columns("correct", correct, "u", u, weights)
    return _au_prc(w * (1 - y), w, ranking, rule)


def _roc_auc(positive: Array, negative: Array, ranking: Ranking) -> float:
    """From the weights [n] of either class, 0 in rows that are not of it."""
    if not (positive.any() and negative.any()):
        return np.nan
    ups, downs = (ranking.sums(x / x.max()) for x in (positive, negative))
    below = np.cumsum(downs) - downs / 2  # negatives with a lower score, and half of those that tie
    return min(1.0, inner(ups, below) / float(ups.sum() * downs.sum()))


def _au_prc(positive: Array, weights: Array, ranking: Ranking, rule: Literal["step", "trapezoid"]) -> float:
    one_of("rule", rule, ("step", "trapezoid"))
    if not positive.any():
        return np.nan
    found = ranking.sums(positive)
    hits, rows = (np.cumsum(x[::-1])[::-1] for x in (found, ranking.sums(weights)))  # of this score and above
    precision = np.divide(hits, rows, out=np.ones_like(rows), where=rows > 0)  # the curve begins at (0, 1)
    if rule == "trapezoid":
        precision = (precision + np.append(precision[1:], 1.0)) / 2
    return min(1.0, inner(found, precision) / float(found.sum()))


def _columns(name: str, values: Any, score: str, u: Any, weights: Any) -> tuple[Array, Array, Ranking]:
    w, ranking = relative(weights), Ranking.by(score, u)
    return known_values(name, values, w, outcomes, **{score: ranking}), w, ranking
