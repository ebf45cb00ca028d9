"""Prediction sets that are as large as the input is hard (Romano, Sesia & Candès 2020, APS)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from demur.policies.conformal import conformal_quantile, error_in_words, error_rate, labelled, marginal_coverage
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, Mask

OWN_SHARE = 0.5
"""The mean of the shares that the paper draws."""


@dataclass(frozen=True, kw_only=True)
class CumulativeSets:
    """The most probable label, and every label whose score is at most qhat.

    The score of a label is the sum of the probabilities of all more probable labels, `own_share` of its own, and
    `penalty` for each rank beyond `k_reg` (`policies/regularised_sets.py`). Over inputs like the fitted ones the set
    misses the right label with probability at most `alpha`.

    The paper draws the share for each input, to make the coverage exact. Here it is the mean of those draws: with a
    draw the same input would be answered once and held another time. A set has at least the most probable label, as in
    the paper, so the sets cover more than they must where the model is right more often than it must be.
    """

    alpha: float
    qhat: float
    """+inf rules out nothing."""

    penalty: float
    k_reg: int
    n: int = 0
    """Labelled rows that were fitted; 0 in artifacts from before this was noted."""

    own_share: float = 1.0
    """1 in artifacts that do not say, whose sets are larger: the second label of a sure input then has about the score
    of the first, and has to be let in with it."""

    keep_predicted: ClassVar[bool] = True

    @property
    def promise_in_words(self) -> str:
        return error_in_words(self.alpha, self.qhat)

    @property
    def promise(self) -> Promise:
        return marginal_coverage(self.alpha, self.qhat, self.n)

    def of(self, probabilities: Array, groups: Any = None) -> Mask:  # noqa: ARG002 - alike in all groups
        """Return [n, C], True where the label is not ruled out. A row with NaN has an empty set."""
        members = np.asarray(cumulative_scores(probabilities, self.penalty, self.k_reg, self.own_share) <= self.qhat)
        members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
        return members & ~np.isnan(probabilities).any(axis=1, keepdims=True)


@dataclass(frozen=True, kw_only=True)
class AdaptiveSets:
    """`adaptive`: small sets for easy inputs, large ones for hard inputs, so that both are missed more alike."""

    alpha: float = 0.01

    def __post_init__(self) -> None:
        error_rate(self.alpha)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> CumulativeSets:  # noqa: ARG002
        return fit_cumulative(probabilities, classes, alpha=self.alpha, penalty=0.0, k_reg=0)


def fit_cumulative(probabilities: Any, classes: Any, *, alpha: float, penalty: float, k_reg: int) -> CumulativeSets:
    """Fit on labelled `probabilities` [n, C] and the index of the right label of each, `classes` [n]."""
    rows, right = labelled(probabilities, classes)
    true_scores = cumulative_scores(rows, penalty, k_reg, OWN_SHARE)[np.arange(len(rows)), right]
    qhat = conformal_quantile(true_scores, alpha)
    return CumulativeSets(alpha=alpha, qhat=qhat, penalty=penalty, k_reg=k_reg, n=len(rows), own_share=OWN_SHARE)


def cumulative_scores(probabilities: Array, penalty: float, k_reg: int, own_share: float) -> Array:
    """Return [n, C], higher for less likely labels; of equally probable ones the first is the more likely."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    own = np.take_along_axis(probabilities, order, axis=1)
    ranked = np.cumsum(own, axis=1) - (1 - own_share) * own
    ranked += penalty * np.maximum(np.arange(1, order.shape[1] + 1) - k_reg, 0)
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, ranked, axis=1)
    return scores
