"""One limit for each label of a multi-label model: a label is predicted iff its probability reaches its limit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from demur.policies.label_share import ShareOf
from demur.policies.promise import LABELS_NOT_PREDICTED, ROWS_LABELS_NOT_PREDICTED, Promise, at_most_labels
from demur.uncertainty.checks import Array, InvalidInput, Mask, fraction, outcomes, real_number, unit_interval

BLOCK = 64
"""Labels looked at together: enough to read memory in order, few enough that copies of them are small."""


@dataclass(frozen=True, kw_only=True)
class LabelThresholds:
    """Limits [L] on probabilities."""

    limits: Array
    missed_share: float | None = None
    """At most this share of labels is promised to be missed; None: nothing is."""

    n: int = 0
    """Rows that the promise rests on."""

    share_of: ShareOf = "rows"
    """What the share is taken of: all labels that hold, or each row's own. Older artifacts have the mean over rows."""

    max_labels: int | None = None
    """The most labels that an input can have, where that was declared."""

    @property
    def promise(self) -> Promise | None:
        if self.missed_share is None:
            return None
        return missed_labels_promise(self.missed_share, self.n, self.share_of, self.max_labels)

    def of(self, probabilities: Array) -> Mask:
        """Return [n, L], True where the label is predicted; False where its probability is NaN."""
        if probabilities.ndim != 2 or probabilities.shape[1] != len(self.limits):
            raise InvalidInput(f"probabilities has shape {probabilities.shape} for {len(self.limits)} limits")
        return np.asarray(probabilities >= self.limits)


def missed_labels_promise(share: float, n: int, share_of: ShareOf, max_labels: int | None) -> Promise:
    """Return the promise of predicted labels that at most `share` of the labels is missed."""
    return Promise(
        share=LABELS_NOT_PREDICTED if share_of == "labels" else ROWS_LABELS_NOT_PREDICTED,
        target=share,
        delta=None,
        n=n,
        assumption=at_most_labels(max_labels),
    )


@dataclass(frozen=True, kw_only=True)
class GivenLabelLimit:
    """`fixed`: limits chosen by somebody."""

    limit: float = 0.5
    """For every label that has none of its own."""

    labels: Mapping[int, float] = field(default_factory=dict)
    """Own limits, by the index of the label."""

    alpha: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        fraction("limit", real_number("limit", self.limit))
        for label, limit in self.labels.items():
            fraction(f"the limit of label {label}", real_number(f"the limit of label {label}", limit))

    def fit(self, probabilities: Any, targets: Any) -> LabelThresholds:  # noqa: ARG002 - nothing is learnt
        n_labels = _matrix("probabilities", probabilities).shape[1]
        limits = np.full(n_labels, float(self.limit))
        for label, limit in self.labels.items():
            if not 0 <= label < n_labels:
                raise InvalidInput(f"there is a limit for label {label}, and there are {n_labels} labels")
            limits[label] = limit
        return LabelThresholds(limits=limits)


@dataclass(frozen=True, kw_only=True)
class MaxF1LabelLimits:
    """`max_f1`: for each label the limit that gave it the best F1 on the fitted rows.

    Empirical: rare labels are fitted to a handful of positives, and do worse on later rows.
    """

    default: float = 0.5
    """For labels that no fitted row has."""

    alpha: ClassVar[float | None] = None

    def __post_init__(self) -> None:
        fraction("default", real_number("default", self.default))

    def fit(self, probabilities: Any, targets: Any) -> LabelThresholds:
        return LabelThresholds(limits=thresholds_max_f1(probabilities, targets, default=self.default))


def thresholds_max_f1(probs: Any, targets: Any, *, default: float = 0.5) -> Array:
    """Return for each label the score t at which predicting p >= t has the largest F1; of equals the largest t.

    `probs` [n, L] in [0, 1], `targets` [n, L] 0/1. A label without positives gets `default` (Agarwal et al., MADE 3.1).
    Works through blocks of labels, so that a large matrix of any number type is never copied as a whole.
    """
    rows, truth = _matrix("probs", probs), _matrix("targets", targets)
    if rows.shape != truth.shape:
        raise InvalidInput(f"probs has shape {rows.shape}, targets {truth.shape}")
    fraction("default", real_number("default", default))
    limits = np.full(rows.shape[1], float(default))
    for start in range(0, rows.shape[1], BLOCK):
        block = slice(start, start + BLOCK)
        columns = np.ascontiguousarray(unit_interval("probs", rows[:, block], ndim=2).T)
        present = np.ascontiguousarray(outcomes("targets", truth[:, block], ndim=2).T == 1)
        for label in np.flatnonzero(present.any(axis=1)):
            limits[start + label] = _limit_of_best_f1(columns[label], present[label])
    return limits


def _limit_of_best_f1(scores: Array, positive: Mask) -> float:
    # the best limit is the score of a positive: from any other, going up to the next positive's only drops false ones
    candidates = np.sort(scores[positive])[::-1]
    found = np.arange(1, len(candidates) + 1)  # of a tie only the last place counts it whole, and it has the best F1
    predicted = len(scores) - np.searchsorted(np.sort(scores), candidates, side="left")
    # equal ratios of whole numbers are equal floats, so argmax finds the first of equals: the largest limit
    return float(candidates[np.argmax(2 * found / (predicted + len(candidates)))])


def _matrix(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidInput(f"{name} is not a rectangular array of numbers: {error}") from None
    if array.ndim != 2 or array.size == 0:
        raise InvalidInput(f"{name} has shape {array.shape}, not one row for each input and one column for each label")
    return array
