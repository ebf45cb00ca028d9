"""Prediction sets that hold the right label with a chosen probability (Vovk et al. 2005; Sadinle et al. 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from uncertainty.checks import Array, InvalidInput, Mask, finite, fraction, probability_rows, real_number, snapped_ceil

Method = Literal["finite", "plain"]


@dataclass(frozen=True, kw_only=True)
class LabelSets:
    """Every label whose probability is at least 1 - qhat, and the predicted one in any case.

    Over inputs like the fitted ones the set misses the right label with probability at most `alpha`; adding the
    predicted label to a set that would be empty can only make it miss less often.
    """

    alpha: float
    qhat: float

    def of(self, probabilities: Array) -> Mask:
        """Return [n, C], True where the label is in the set."""
        members = 1 - probabilities <= self.qhat
        members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
        return members


def fit_label_sets(probabilities: Any, classes: np.ndarray, *, alpha: float) -> LabelSets:
    """Fit the sets on labelled `probabilities` [n, C] that the model was not trained on."""
    rows = probability_rows("probabilities", probabilities)
    true_scores = 1 - rows[np.arange(len(rows)), classes]
    return LabelSets(alpha=alpha, qhat=conformal_quantile(true_scores, alpha))


def conformal_quantile(scores: Any, alpha: float, *, method: Method = "finite") -> float:
    """Return the k-th smallest of `scores` [n], k = ceil((n + 1)(1 - alpha)); +inf when k > n.

    A set of all options with score <= this value covers the truth with probability at least 1 - alpha.
    `method="plain"` takes k = ceil(n (1 - alpha)) and falls short of that; it is there to reproduce papers.
    An order statistic, not numpy.quantile: its interpolations return a neighbouring one.
    """
    values = finite("scores", scores)
    fraction("alpha", real_number("alpha", alpha), open_low=True, open_high=True)
    if method not in ("finite", "plain"):
        raise InvalidInput(f"method is {method!r}; it is 'finite' or 'plain'")
    rank = snapped_ceil((len(values) + (method == "finite")) * (1 - alpha))
    if 1 <= rank <= len(values):
        values = np.partition(values, rank - 1)  # as good as sorted for this rank
    return order_statistic(values, rank)


def order_statistic(ranked: Sequence[float] | Array, rank: int) -> float:
    """Return the value of this rank, counted from 1, of values in order; past either end it is infinite."""
    if rank < 1:
        return -np.inf
    return float(ranked[rank - 1]) if rank <= len(ranked) else np.inf


def conformal_sets(option_scores: Any, qhat: float) -> list[list[int]]:
    """Return, for each row of `option_scores` [n, C], the options with score <= `qhat`.

    Scores are higher for less likely options. An infinite `qhat` admits every option or none.
    """
    rows, limit = finite("option_scores", option_scores, ndim=2), real_number("qhat", qhat, infinite=True)
    return [np.flatnonzero(row <= limit).tolist() for row in rows]
