"""Answer where every label that is predicted is probable enough, each by a limit of its own."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.limit import UNKNOWN, told_apart
from demur.policies.promise import Promise
from demur.policies.threshold import Otherwise
from demur.uncertainty.checks import Array, InvalidInput, fraction, unit_interval

MEANING = "its limit in the configuration"


@dataclass(frozen=True, kw_only=True)
class LabelLimits:
    """Fitted limits. A predicted label beyond the most probable ones, which are calibrated, is unknown, and held."""

    limits: Array
    """[C], on the calibrated probability of each label."""

    limit: float
    """On the confidence in the whole, for a row of which no label is predicted."""

    otherwise: str = "review"

    promise: ClassVar[Promise | None] = None
    reads: ClassVar[frozenset[str]] = frozenset()

    def decide(self, assessed: Assessment) -> Decisions:
        known = assessed.label_confidence
        if known is None:
            raise InvalidInput("the rule has limits for labels, and labels have no confidence here")
        values = np.full(known.predicted.shape, np.nan)
        np.put_along_axis(values, known.top, known.values, axis=1)
        reached = np.where(known.predicted, values >= self.limits, True).all(axis=1)  # False for NaN
        none = np.asarray(~known.predicted.any(axis=1))
        answered = np.where(none, assessed.confidence >= self.limit, reached) & ~np.isnan(assessed.confidence)
        # of a held row, the label that lacks most is named, an unknown one before all others
        lack = np.where(known.predicted, self.limits - values, -np.inf)
        worst = np.where(np.isnan(lack), np.inf, lack).argmax(axis=1)
        return Decisions.where(
            answered,
            reasons=[
                self._of_none(confidence)
                if empty or np.isnan(confidence)
                else self._of_label(float(values[row, worst[row]]), float(self.limits[worst[row]]))
                for row, (empty, confidence) in enumerate(zip(none.tolist(), assessed.confidence.tolist(), strict=True))
            ],
            otherwise=Action(self.otherwise),
        )

    def _of_none(self, confidence: float) -> str:
        if np.isnan(confidence):
            return UNKNOWN
        here, limit = told_apart(confidence, self.limit)
        relation = "at or above" if confidence >= self.limit else "below"
        return f"no label is predicted, and confidence {here} in that is {relation} {limit}, {MEANING}"

    def _of_label(self, value: float, limit: float) -> str:
        if np.isnan(value):
            return "a predicted label is not among the most probable ones, whose confidence is known"
        here, there = told_apart(value, limit)
        relation = "at or above" if value >= limit else "below"
        return f"the least sure of the predicted labels has confidence {here}, {relation} {there}, {MEANING}"


@dataclass(frozen=True, kw_only=True)
class GivenLabelLimits:
    """`threshold` with `labels`: the limits as somebody chose them. They promise nothing."""

    limit: float
    """For labels that are not listed, and for rows without a label."""

    limits: tuple[float, ...]
    """Of every label, in the order of the task."""

    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        fraction("limit", self.limit)
        unit_interval("limits", self.limits)

    def fit(self, rows: GradedRows) -> LabelLimits:  # noqa: ARG002 - nothing is learnt
        return LabelLimits(limits=np.array(self.limits), limit=self.limit, otherwise=self.otherwise)
