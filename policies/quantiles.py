"""What a score of labels may be at most: one quantile for all rows, one for each label, or one for each group.

Each table says what it promises, and in words, at what error it rules labels out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from demur.policies.conformal import conformal_quantile, labels_needed
from demur.policies.promise import Promise
from demur.policies.risk_bound import labels_without_error
from demur.policies.training_conditional import pac_quantile
from demur.uncertainty.checks import Array, InvalidInput, same_length


class Quantiles(Protocol):
    """A fitted table. +inf rules out nothing: too few rows were fitted."""

    @property
    def promise(self) -> Promise: ...

    @property
    def promise_in_words(self) -> str: ...

    def limits(self, scores: Array, groups: Sequence[str | None] | None) -> Any:
        """What each of `scores` [n, C] may be at most: a number, [C], or [n, 1]."""
        ...


def rows_needed(alpha: float, delta: float | None, parts: int = 1) -> int:
    """Return the smallest number of labelled rows, of each part, from which a quantile rules anything out."""
    return labels_needed(alpha) if delta is None else labels_without_error(alpha, delta / parts)


def fitted_quantile(right_scores: Array, alpha: float, delta: float | None, parts: int = 1) -> float:
    """Return what the scores [n] of right labels exceed with probability `alpha`: on average over fits, or with a
    `delta` in this fit, except with that probability over all `parts` together."""
    if delta is None:
        return conformal_quantile(right_scores, alpha)
    return pac_quantile(right_scores, alpha, delta / parts)


@dataclass(frozen=True, kw_only=True)
class OneQuantile:
    """Over inputs like the fitted ones the set misses the right label with probability at most `alpha`."""

    alpha: float
    qhat: float
    n: int
    delta: float | None = None
    """Except with this probability over the choice of the fitted rows; None: on average over such choices."""

    @classmethod
    def fit(cls, right_scores: Array, alpha: float, delta: float | None = None) -> "OneQuantile":
        """Fit on the scores [n] of right labels."""
        qhat = fitted_quantile(right_scores, alpha, delta)
        return cls(alpha=alpha, qhat=qhat, n=len(right_scores), delta=delta)

    @property
    def promise(self) -> Promise:
        return Promise(
            share="of the sets lack the right label",
            target=self.alpha,
            delta=self.delta,
            n=self.n,
            feasible=bool(np.isfinite(self.qhat)),
        )

    @property
    def promise_in_words(self) -> str:
        words = f"at {100 * self.alpha:g}% error"
        needed = rows_needed(self.alpha, self.delta)
        return f"{words} (that takes {needed:,} labelled rows)" if np.isposinf(self.qhat) else words

    def limits(self, scores: Array, groups: Sequence[str | None] | None) -> float:  # noqa: ARG002 - alike in all
        return self.qhat


@dataclass(frozen=True, kw_only=True)
class QuantilePerLabel:
    """One quantile for each label: the set misses each label c with probability at most `alpha`, over inputs whose
    right label is c, if these are like the fitted ones. That still holds when some labels become more frequent than
    they were."""

    alpha: float
    qhats: Array
    """[C], +inf for a label of too few fitted rows: it is in every set."""

    n: int
    delta: float | None = None
    """Except with this probability for all labels together; None: on average over choices of the fitted rows."""

    @classmethod
    def fit(
        cls,
        right_scores: Array,
        right: NDArray[np.intp],
        n_labels: int,
        alpha: float,
        delta: float | None = None,
    ) -> "QuantilePerLabel":
        """Fit on the scores [n] of right labels, whose indices are `right` [n]."""
        order = np.argsort(right, kind="stable")
        labels, starts = np.unique(right[order], return_index=True)
        qhats = np.full(n_labels, np.inf)
        for label, scores in zip(labels, np.split(right_scores[order], starts[1:]), strict=True):
            qhats[label] = fitted_quantile(scores, alpha, delta, n_labels)
        return cls(alpha=alpha, qhats=qhats, n=len(right_scores), delta=delta)

    @property
    def promise(self) -> Promise:
        return Promise(
            share="of the inputs of each label have a set without it",
            target=self.alpha,
            delta=self.delta,
            n=self.n,
            feasible=bool(np.isfinite(self.qhats).any()),
            assumption="later inputs of each label are drawn like its calibration data",
        )

    @property
    def promise_in_words(self) -> str:
        return f"at {100 * self.alpha:g}% error for each label{_scarce(self.qhats, self.alpha, self.delta)}"

    def limits(self, scores: Array, groups: Sequence[str | None] | None) -> Array:  # noqa: ARG002 - alike in all
        if scores.ndim != 2 or scores.shape[1] != len(self.qhats):
            raise InvalidInput(f"probabilities has shape {scores.shape} for {len(self.qhats)} labels")
        return self.qhats


@dataclass(frozen=True, kw_only=True)
class QuantilePerGroup:
    """One quantile for each group: the set misses the right label with probability at most `alpha` in each fitted
    group, if its inputs are like the fitted ones. Nothing is known of another group: there the set is full."""

    alpha: float
    groups: list[str]
    """The fitted ones; an empty name stands for rows without a group."""

    qhats: Array
    """[g], +inf for a group of too few fitted rows: its sets are full."""

    n: int
    counts: Sequence[int] | None = None
    """[g], fitted rows of each; None in artifacts from before they were kept."""

    delta: float | None = None
    """Except with this probability for all groups together; None: on average over choices of the fitted rows."""

    @classmethod
    def fit(
        cls, right_scores: Array, groups: Sequence[str | None] | None, alpha: float, delta: float | None = None
    ) -> "QuantilePerGroup":
        """Fit on the scores [n] of right labels in rows of these groups."""
        if groups is None or not any(groups):
            raise InvalidInput("no labelled row names its group, and the sets are to hold in each; add a `group`")
        of_row = [group or "" for group in groups]
        inside: dict[str, list[int]] = {}
        for row, name in enumerate(of_row):
            inside.setdefault(name, []).append(row)
        qhats = [fitted_quantile(right_scores[rows], alpha, delta, len(inside)) for rows in inside.values()]
        return cls(
            alpha=alpha,
            groups=list(inside),
            qhats=np.array(qhats),
            n=len(right_scores),
            counts=[len(rows) for rows in inside.values()],
            delta=delta,
        )

    @property
    def promise(self) -> Promise:
        return Promise(
            share="of the inputs of each group have a set without the right label",
            target=self.alpha,
            delta=self.delta,
            n=self.n,
            n_of=None if self.counts is None else dict(zip(self.groups, self.counts, strict=True)),
            feasible=bool(np.isfinite(self.qhats).any()),
            assumption="later inputs of each group are drawn like its calibration data",
        )

    @property
    def promise_in_words(self) -> str:
        return f"at {100 * self.alpha:g}% error in each group{_scarce(self.qhats, self.alpha, self.delta)}"

    def limits(self, scores: Array, groups: Sequence[str | None] | None) -> Array:
        names = [""] * len(scores) if groups is None else [group or "" for group in groups]
        same_length(probabilities=scores, groups=names)
        qhats = dict(zip(self.groups, self.qhats.tolist(), strict=True))
        return np.array([qhats.get(name, np.inf) for name in names])[:, None]


def _scarce(qhats: Array, alpha: float, delta: float | None) -> str:
    """How many of the parts have too few rows; empty where none has."""
    scarce = int(np.isposinf(qhats).sum())
    if not scarce:
        return ""
    needed = rows_needed(alpha, delta, len(qhats))
    return f" (that takes {needed:,} labelled rows of each; {scarce} of {len(qhats)} have fewer)"
