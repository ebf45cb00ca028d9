"""Whether a score tells errors from right answers: areas under the ROC and precision-recall curves (METHODS 5.3).

Scores may be given as a `Ranking`, so that several metrics share one sort. scikit-learn gives the same values; its
functions sort anew each time.
"""

from collections.abc import Sized
from typing import Any, Literal

import numpy as np

from demur.audit.metrics.ranking import Ranking, inner
from demur.uncertainty.checks import Mask, indicators, one_of, same_length


def roc_auc(labels: Any, scores: Any) -> float:
    """Chance that a positive outscores a negative, ties counting a half; NaN when one class is absent.

    `labels` [n] are 0/1, `scores` [n] higher for positives (Mann & Whitney 1947).
    """
    positive, ranking = _pair("labels", labels, scores, "scores")
    return _roc_auc(positive, ranking)


def error_roc_auc(correct: Any, u: Any) -> float:
    """ROC-AUC of the score `u` [n] for finding errors among 0/1 `correct` [n]; 1/2 is chance."""
    right, ranking = _pair("correct", correct, u, "u")
    return _roc_auc(~right, ranking)


def au_prc(labels: Any, scores: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve; NaN without positives. Chance is the share of positives.

    `step` is average precision, sum (R_i - R_{i-1}) P_i over the distinct scores from the highest down; `trapezoid`
    joins the points by lines, from (0, 1) on, and is optimistic.
    """
    positive, ranking = _pair("labels", labels, scores, "scores")
    return _au_prc(positive, ranking, rule)


def error_au_prc(correct: Any, u: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve of `u` [n] with the errors as positives; NaN without errors."""
    right, ranking = _pair("correct", correct, u, "u")
    return _au_prc(~right, ranking, rule)


def _roc_auc(positive: Mask, ranking: Ranking) -> float:
    n, positives = len(positive), int(np.count_nonzero(positive))
    if positives in (0, n):
        return np.nan
    if ranking.has_ties:
        inside = np.diff(ranking.running_counts(positive), prepend=0)
        twice_ranks = int(inside @ (ranking.starts + ranking.ends + 1))  # a tied row has the mean rank of its group
    else:
        twice_ranks = 2 * int(np.flatnonzero(positive[ranking.order]).sum() + positives)
    return (twice_ranks - positives * (positives + 1)) / (2 * positives * (n - positives))


def _au_prc(positive: Mask, ranking: Ranking, rule: Literal["step", "trapezoid"]) -> float:
    one_of("rule", rule, ("step", "trapezoid"))
    positives = int(np.count_nonzero(positive))
    if positives == 0:
        return np.nan
    before = np.append(0, ranking.running_counts(positive))[:-1]  # positives with a lower score than each group's
    found = positives - before
    precision = found / (len(positive) - ranking.starts)
    if rule == "trapezoid":
        precision = (precision + np.append(precision[1:], 1.0)) / 2
    return inner(np.diff(before, append=positives), precision) / positives


def _pair(name: str, values: Any, scores: Any, scores_name: str) -> tuple[Mask, Ranking]:
    marked, ranking = indicators(name, values, ndim=1), Ranking.by(scores_name, scores)
    named: dict[str, Sized] = {name: marked, scores_name: ranking}
    same_length(**named)
    return marked, ranking
