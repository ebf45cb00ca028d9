"""Whether a score tells errors from right answers: areas under the ROC and precision-recall curves (METHODS 5.3).

Scores may be given as a `Ranking`, so that several metrics share one sort. scikit-learn gives the same values; its
functions sort anew each time.
"""

from collections.abc import Sized
from typing import Any, Literal

import numpy as np

from audit.ranking import Ranking
from uncertainty.checks import Array, one_of, outcomes, same_length


def roc_auc(labels: Any, scores: Any) -> float:
    """Chance that a positive outscores a negative, ties counting a half; NaN when one class is absent.

    `labels` [n] are 0/1, `scores` [n] higher for positives (Mann & Whitney 1947).
    """
    y, ranking = _pair("labels", labels, scores, "scores")
    return _roc_auc(y, ranking)


def error_roc_auc(correct: Any, u: Any) -> float:
    """ROC-AUC of the score `u` [n] for finding errors among 0/1 `correct` [n]; 1/2 is chance."""
    right, ranking = _pair("correct", correct, u, "u")
    return _roc_auc(1 - right, ranking)


def au_prc(labels: Any, scores: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve; NaN without positives. Chance is the share of positives.

    `step` is average precision, sum (R_i - R_{i-1}) P_i over the distinct scores from the highest down; `trapezoid`
    joins the points by lines, from (0, 1) on, and is optimistic.
    """
    y, ranking = _pair("labels", labels, scores, "scores")
    return _au_prc(y, ranking, rule)


def error_au_prc(correct: Any, u: Any, *, rule: Literal["step", "trapezoid"] = "step") -> float:
    """Area under the precision-recall curve of `u` [n] with the errors as positives; NaN without errors."""
    right, ranking = _pair("correct", correct, u, "u")
    return _au_prc(1 - right, ranking, rule)


def _roc_auc(y: Array, ranking: Ranking) -> float:
    positives = float(y.sum())
    negatives = len(y) - positives
    if positives == 0 or negatives == 0:
        return np.nan
    totals = ranking.totals(y)
    # a positive of a group outscores the negatives below the group and ties with those in it; all exact halves
    twice_rank = ranking.starts + ranking.ends + 1
    return (float(totals @ twice_rank) - positives * (positives + 1)) / (2 * positives * negatives)


def _au_prc(y: Array, ranking: Ranking, rule: Literal["step", "trapezoid"]) -> float:
    one_of("rule", rule, ("step", "trapezoid"))
    totals = ranking.totals(y)[::-1]
    found = np.cumsum(totals)
    if found[-1] == 0:
        return np.nan
    precision = found / (len(y) - ranking.starts[::-1])
    if rule == "trapezoid":
        precision = (precision + np.append(1.0, precision[:-1])) / 2
    return float(totals @ precision / found[-1])


def _pair(name: str, values: Any, scores: Any, scores_name: str) -> tuple[Array, Ranking]:
    y, ranking = outcomes(name, values), Ranking.by(scores_name, scores)
    named: dict[str, Sized] = {name: y, scores_name: ranking}
    same_length(**named)
    return y, ranking
