"""From a model's output to a decision: scores, calibrator and rule as one object, online and offline the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from policies.conformal import LabelSets, fit_label_sets
from policies.decision import Action, Decisions
from policies.threshold import GivenLimit, RejectionRate, TargetRisk, Threshold
from uncertainty.calibrators import Calibrator, CalibratorRecipe
from uncertainty.checks import Array, InvalidInput, Mask
from uncertainty.output import LabelledOutput, Need, Output
from uncertainty.scores import Formula, Score, ScoreRecipe


class Policy(Protocol):
    """A fitted rule."""

    @property
    def otherwise(self) -> str: ...

    def decide(self, confidence: Array) -> Decisions: ...


class PolicyRecipe(Protocol):
    """A rule as it is configured, before it has seen data."""

    @property
    def otherwise(self) -> str: ...

    def fit(self, confidence: Array, correct: Array) -> Policy: ...


POLICIES: dict[str, Callable[..., PolicyRecipe]] = {
    "threshold": GivenLimit,
    "target_risk": TargetRisk,
    "rejection_rate": RejectionRate,
}

FITTED_POLICIES = (Threshold,)
"""What an artifact may hold in the place of a policy."""

UNUSABLE = "the model's output is not a number, and what is unknown is held"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the selector says about a batch of `n` rows. Undefined numbers are NaN."""

    predicted: NDArray[np.intp]
    """[n], index of the most probable label; -1 where the output was unusable."""

    confidence: Array
    """[n], calibrated probability that the prediction is right."""

    scores: dict[str, Array]
    """[n] for each score."""

    members: Mask
    """[n, C], True for labels in the prediction set."""

    decisions: Decisions

    def __len__(self) -> int:
        return len(self.predicted)

    def replaced(self, rows: Mask, known: "Judgement") -> "Judgement":
        """The same with the rows that are True taken from `known`, in order."""

        def mixed(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            result = mine.copy()
            result[rows] = theirs
            return result

        return Judgement(
            predicted=mixed(self.predicted, known.predicted),
            confidence=mixed(self.confidence, known.confidence),
            scores={name: mixed(score, known.scores[name]) for name, score in self.scores.items()},
            members=mixed(self.members, known.members),
            decisions=self.decisions.replaced(rows, known.decisions),
        )


@dataclass(frozen=True, kw_only=True)
class Selector:
    """Everything that was fitted for one model."""

    scores: Mapping[str, Score]
    confidence_score: str
    """Which of `scores` the calibrator reads."""

    calibrator: Calibrator
    sets: LabelSets
    policy: Policy

    @property
    def needs(self) -> frozenset[Need]:
        return needs_of(self.scores)

    def decide(self, output: Output) -> Judgement:
        """Judge each row by itself: what is said of one does not depend on its neighbours in the batch."""
        usable = output.usable()
        if usable.all():
            return self._judge(output)
        nothing = self._nothing_known(output)
        return nothing.replaced(usable, self._judge(output.rows(usable))) if usable.any() else nothing

    def _judge(self, output: Output) -> Judgement:
        scores = {name: score.of(output) for name, score in self.scores.items()}
        confidence = self.calibrator.confidence(-scores[self.confidence_score])
        return Judgement(
            predicted=output.probabilities.argmax(axis=1),
            confidence=confidence,
            scores=scores,
            members=self.sets.of(output.probabilities),
            decisions=self.policy.decide(confidence),
        )

    def _nothing_known(self, output: Output) -> Judgement:
        n = len(output)
        return Judgement(
            predicted=np.full(n, -1),
            confidence=np.full(n, np.nan),
            scores={name: np.full(n, np.nan) for name in self.scores},
            members=np.zeros(output.probabilities.shape, dtype=bool),
            decisions=Decisions(actions=(Action(self.policy.otherwise),) * n, reasons=(UNUSABLE,) * n),
        )


@dataclass(frozen=True, kw_only=True)
class SelectorRecipe:
    """A selector as it is configured, before it has seen data."""

    scores: Mapping[str, ScoreRecipe]
    confidence_score: str
    calibrator: CalibratorRecipe
    policy: PolicyRecipe
    set_alpha: float

    @property
    def needs(self) -> frozenset[Need]:
        return needs_of(self.scores)

    @property
    def learns(self) -> bool:
        """Whether the score behind the confidence has something to fit, and so must not be calibrated on the
        rows that it was fitted on: they look less strange to it than new ones will."""
        return not isinstance(self.scores[self.confidence_score], Formula)

    def fit(self, rows: LabelledOutput, *, statistics: LabelledOutput) -> Selector:
        """Fit the scores on `statistics`, everything else on `rows`; they may be the same unless `learns`.

        The calibrator and the limit share rows because a calibrator is monotone in its score: which limit is
        chosen depends on the order of the rows alone. What the result is worth must be measured on other rows.
        """
        for part in (rows, statistics):
            bad = int((~part.output.usable()).sum())
            if bad:
                raise InvalidInput(f"the model gave {bad} of {len(part)} rows an output that is not a number")
        scores = {name: recipe.fit(statistics) for name, recipe in self.scores.items()}
        evidence = -scores[self.confidence_score].of(rows.output)
        calibrator = self.calibrator.fit(evidence, rows.correct)
        return Selector(
            scores=scores,
            confidence_score=self.confidence_score,
            calibrator=calibrator,
            sets=fit_label_sets(rows.output.probabilities, rows.classes, alpha=self.set_alpha),
            policy=self.policy.fit(calibrator.confidence(evidence), rows.correct),
        )


def needs_of(scores: Mapping[str, Score] | Mapping[str, ScoreRecipe]) -> frozenset[Need]:
    """What a model must hand over for these scores; probabilities always."""
    always: frozenset[Need] = frozenset({"probabilities"})
    return always.union(*(score.needs for score in scores.values()))
