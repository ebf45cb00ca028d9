"""Prediction sets that miss the right label no more often in one group than in another (Vovk et al. 2005, Mondrian)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.policies.conformal import error_rate, labelled, labels_needed
from demur.policies.mondrian import mondrian_quantiles
from demur.policies.promise import Promise
from demur.uncertainty.checks import Array, InvalidInput, Mask, same_length


@dataclass(frozen=True, kw_only=True)
class GroupLimitSets:
    """Every label whose probability is at least 1 - the quantile of the row's group.

    Of the inputs of each fitted group the set misses the right label with probability at most `alpha`, if these are
    like the fitted inputs of that group. Nothing is known of another group: there the set is full.
    """

    alpha: float
    groups: list[str]
    """The fitted ones; an empty name stands for rows without a group."""

    qhats: Array
    """[g], +inf for a group of too few fitted rows: its sets are full."""

    n: int
    keep_predicted: bool = True

    @property
    def promise_in_words(self) -> str:
        words = f"at {100 * self.alpha:g}% error in each group"
        scarce = int(np.isposinf(self.qhats).sum())
        if not scarce:
            return words
        needed = labels_needed(self.alpha)
        return f"{words} (that takes {needed:,} labelled rows of each; {scarce} of {len(self.qhats)} have fewer)"

    @property
    def promise(self) -> Promise:
        return Promise(
            share="of the inputs of each group have a set without the right label",
            target=self.alpha,
            delta=None,
            n=self.n,
            feasible=bool(np.isfinite(self.qhats).any()),
            assumption="later inputs of each group are drawn like its calibration data",
        )

    def of(self, probabilities: Array, groups: Sequence[str | None] | None = None) -> Mask:
        """Return [n, C], True where the label is not ruled out in a row of this group."""
        names = [""] * len(probabilities) if groups is None else [group or "" for group in groups]
        same_length(probabilities=probabilities, groups=names)
        limits = dict(zip(self.groups, self.qhats.tolist(), strict=True))
        qhats = np.array([limits.get(name, np.inf) for name in names])
        return np.asarray(1 - probabilities <= qhats[:, None])


@dataclass(frozen=True, kw_only=True)
class GroupConditionalSets:
    """`group_conditional`: one quantile for each `group` that requests and labelled rows name."""

    alpha: float = 0.01
    keep_predicted: bool = True

    def __post_init__(self) -> None:
        error_rate(self.alpha)

    def fit(self, probabilities: Any, classes: Any, groups: Sequence[str | None] | None = None) -> GroupLimitSets:
        rows, right = labelled(probabilities, classes)
        if groups is None or not any(groups):
            raise InvalidInput("no labelled row names its group, and the sets are to hold in each; add a `group`")
        names = [group or "" for group in groups]
        found = mondrian_quantiles(1 - rows[np.arange(len(rows)), right], names, self.alpha)
        return GroupLimitSets(
            alpha=self.alpha,
            groups=[str(name) for name in found],
            qhats=np.array(list(found.values())),
            n=len(rows),
            keep_predicted=self.keep_predicted,
        )
