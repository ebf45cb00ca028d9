"""Prediction sets that miss no label more often than another (Vovk et al. 2005; Sadinle et al. 2019)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import error_rate, labelled, labels_needed
from demur.policies.mondrian import mondrian_quantiles
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask


@dataclass(frozen=True, kw_only=True)
class ClassLimitSets:
    """Every label whose probability is at least 1 - its own quantile.

    Of the inputs with the right label c, for every c, the set misses it with probability at most `alpha`, if these are
    like the fitted inputs of label c. That still holds when some labels become more frequent than they were.
    """

    alpha: float
    qhats: Array
    """[C], +inf for a label of too few fitted rows: it is in every set."""

    n: int = 0
    """Labelled rows that were fitted; 0 in artifacts from before this was noted."""

    keep_predicted: bool = True
    """Whether the predicted label is shown even where the set rules it out."""

    @property
    def promise(self) -> Promise:
        return Promise(
            share="of the inputs of each label have a set without it",
            target=self.alpha,
            delta=None,
            n=self.n,
            feasible=bool(np.isfinite(self.qhats).any()),
            assumption="later inputs of each label are drawn like its calibration data",
        )

    @property
    def promise_in_words(self) -> str:
        words = f"at {100 * self.alpha:g}% error for each label"
        scarce = int(np.isposinf(self.qhats).sum())
        if not scarce:
            return words
        needed = labels_needed(self.alpha)
        return f"{words} (that takes {needed:,} labelled rows of each; {scarce} of {len(self.qhats)} have fewer)"

    def of(self, probabilities: Array, groups: Any = None) -> Mask:  # noqa: ARG002 - alike in all groups
        """Return [n, C], True where the label is not ruled out. The predicted one may be where others are not."""
        if probabilities.ndim != 2 or probabilities.shape[1] != len(self.qhats):
            raise InvalidInput(f"probabilities has shape {probabilities.shape} for {len(self.qhats)} labels")
        return np.asarray(1 - probabilities <= self.qhats)


@dataclass(frozen=True, kw_only=True)
class ClassConditionalSets:
    """`class_conditional`: one quantile for each label. Rare labels are not paid for by frequent ones."""

    alpha: float = 0.01
    keep_predicted: bool = True

    def __post_init__(self) -> None:
        error_rate(self.alpha)

    def fit(self, probabilities: Any, classes: Any, groups: Any = None) -> ClassLimitSets:  # noqa: ARG002
        rows, right = labelled(probabilities, classes)
        found = mondrian_quantiles(1 - rows[np.arange(len(rows)), right], right.tolist(), self.alpha)
        qhats = np.array([found.get(label, np.inf) for label in range(rows.shape[1])])
        return ClassLimitSets(alpha=self.alpha, qhats=qhats, n=len(rows), keep_predicted=self.keep_predicted)
