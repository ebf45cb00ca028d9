"""Whether a score tells errors from right answers (METHODS 5.3)."""

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from uncertainty.checks import finite, outcomes, same_length


def roc_auc(labels: Any, scores: Any) -> float:
    """Chance that a positive outscores a negative, ties counting a half; NaN when one class is absent."""
    y, s = outcomes("labels", labels), finite("scores", scores)
    same_length(labels=y, scores=s)
    return np.nan if y.min() == y.max() else float(roc_auc_score(y, s))


def error_roc_auc(correct: Any, u: Any) -> float:
    """ROC-AUC of the score `u` [n] for finding errors among 0/1 `correct` [n]; 1/2 is chance."""
    return roc_auc(1 - outcomes("correct", correct), u)
