"""From a model's output to a decision: scores, calibrator and rule as one object, online and offline the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from policies import prediction
from policies.cost import ChowRule
from policies.decision import Action, Assessed, Decisions
from policies.label_sets import PredictionSets, PredictionSetsRecipe, shown
from policies.prediction import MostProbable, Predictor, PredictorRecipe
from policies.selective_risk import SelectiveRisk
from policies.set_size import SetSize
from policies.threshold import GivenLimit, RejectionRate, TargetRisk, Threshold
from uncertainty.calibrators import Calibrator, CalibratorRecipe, evidence, fit_calibrator
from uncertainty.checks import Array, InvalidInput, Mask
from uncertainty.combination import Combination, CombinationRecipe
from uncertainty.correctness import QUALITIES
from uncertainty.label_confidence import LabelCalibrator, LabelCalibratorRecipe
from uncertainty.output import LabelledOutput, Need, Output
from uncertainty.scores import Score, ScoreRecipe, learns


class Policy(Protocol):
    """A fitted rule."""

    @property
    def otherwise(self) -> str: ...

    def decide(self, assessed: Assessed) -> Decisions: ...


class PolicyRecipe(Protocol):
    """A rule as it is configured, before it has seen data."""

    @property
    def otherwise(self) -> str: ...

    @property
    def certifies(self) -> bool:
        """Whether it promises a risk from counted errors: then it must see rows that nothing else was fitted on."""
        ...

    def fit(self, confidence: Array, quality: Array) -> Policy: ...


POLICIES: dict[str, Callable[..., PolicyRecipe]] = {
    "threshold": GivenLimit,
    "target_risk": TargetRisk,
    "rejection_rate": RejectionRate,
    "selective_risk": SelectiveRisk,
    "conformal": SetSize,
    "cost": ChowRule,
}

FITTED_POLICIES = (Threshold, SetSize)
"""What an artifact may hold in the place of a policy."""


def acts_on_sets(recipe: PolicyRecipe) -> bool:
    """Whether the rule reads the size of the prediction set, and so cannot do without sets."""
    return bool(getattr(recipe, "acts_on_sets", False))


UNUSABLE = "the model's output is not a number, and what is unknown is held"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the selector says about a batch of `n` rows. Undefined numbers are NaN."""

    usable: Mask
    """[n], False where the output was not a number: nothing is predicted there."""

    predicted: Mask
    """[n, C], True for the predicted label, or for each of them."""

    confidence: Array
    """[n], how right the prediction is expected to be."""

    scores: dict[str, Array]
    """[n] for each score."""

    members: Mask
    """[n, C], True for labels shown as the prediction set."""

    label_confidence: Array | None
    """[n, k], calibrated probability of each of the k most probable labels, where labels do not exclude each other."""

    decisions: Decisions

    def __len__(self) -> int:
        return len(self.confidence)

    def replaced(self, rows: Mask, known: "Judgement") -> "Judgement":
        """The same with the rows that are True taken from `known`, in order."""

        def mixed(mine: NDArray[Any], theirs: NDArray[Any]) -> NDArray[Any]:
            result = mine.copy()
            result[rows] = theirs
            return result

        return Judgement(
            usable=mixed(self.usable, known.usable),
            predicted=mixed(self.predicted, known.predicted),
            confidence=mixed(self.confidence, known.confidence),
            scores={name: mixed(score, known.scores[name]) for name, score in self.scores.items()},
            members=mixed(self.members, known.members),
            label_confidence=None
            if self.label_confidence is None or known.label_confidence is None
            else mixed(self.label_confidence, known.label_confidence),
            decisions=self.decisions.replaced(rows, known.decisions),
        )


@dataclass(frozen=True, kw_only=True)
class Selector:
    """Everything that was fitted for one model."""

    scores: Mapping[str, Score]
    confidence_score: str
    """Which of the scores and combinations the calibrator reads."""

    calibrator: Calibrator
    policy: Policy
    predictor: Predictor = field(default_factory=MostProbable)
    combinations: Mapping[str, Combination] = field(default_factory=dict)
    sets: PredictionSets | None = None
    """None where the predicted labels are the set."""

    label_calibrator: LabelCalibrator | None = None

    @property
    def needs(self) -> frozenset[Need]:
        return needs_of(self.scores)

    def decide(self, output: Output, groups: Sequence[str | None] | None = None) -> Judgement:  # noqa: ARG002
        """Judge each row by itself: what is said of one does not depend on its neighbours in the batch.

        `groups`, [n], are where the inputs come from; nothing reads them yet.
        """
        usable = output.usable()
        if usable.all():
            return self._judge(output)
        nothing = self._nothing_known(output)
        return nothing.replaced(usable, self._judge(output.rows(usable))) if usable.any() else nothing

    def _judge(self, output: Output) -> Judgement:
        scores = all_scores(self.scores, self.combinations, output)
        seen = evidence(self.calibrator.reads, scores[self.confidence_score], output)
        confidence = self.calibrator.confidence(seen)
        predicted = self.predictor.of(output.probabilities)
        inside = self.sets.of(output.probabilities) if self.sets else predicted
        assessed = Assessed(
            confidence=confidence,
            scores=scores,
            set_size=inside.sum(axis=1),
            in_set=np.asarray((inside & predicted).any(axis=1)),
            n_labels=inside.shape[1],
            set_promise=self.sets.promise if self.sets else "",
        )
        return Judgement(
            usable=np.ones(len(output), dtype=bool),
            predicted=predicted,
            confidence=confidence,
            scores=scores,
            members=shown(self.sets, inside, predicted) if self.sets else predicted,
            label_confidence=self.label_calibrator.of(output.probabilities) if self.label_calibrator else None,
            decisions=self.policy.decide(assessed),
        )

    def _nothing_known(self, output: Output) -> Judgement:
        n = len(output)
        nothing = np.zeros(output.probabilities.shape, dtype=bool)
        return Judgement(
            usable=np.zeros(n, dtype=bool),
            predicted=nothing,
            confidence=np.full(n, np.nan),
            scores={name: np.full(n, np.nan) for name in (*self.scores, *self.combinations)},
            members=nothing,
            label_confidence=np.full((n, self.label_calibrator.k), np.nan) if self.label_calibrator else None,
            decisions=Decisions(actions=(Action(self.policy.otherwise),) * n, reasons=(UNUSABLE,) * n),
        )


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Labelled rows, apart as far as what is fitted later must not be fitted on what was fitted on before."""

    statistics: LabelledOutput
    """For the scores and the predictor."""

    mixing: LabelledOutput
    """For the combinations of scores."""

    calibration: LabelledOutput
    """For the calibrator."""

    rule: LabelledOutput
    """For the rule."""


@dataclass(frozen=True, kw_only=True)
class SelectorRecipe:
    """A selector as it is configured, before it has seen data."""

    scores: Mapping[str, ScoreRecipe]
    confidence_score: str
    calibrator: CalibratorRecipe
    policy: PolicyRecipe
    predictor: PredictorRecipe = field(default_factory=MostProbable)
    right: str = "exact"
    """Which of `QUALITIES` says how right a prediction was."""

    combinations: Mapping[str, CombinationRecipe] = field(default_factory=dict)
    sets: PredictionSetsRecipe | None = None
    """None where labels do not exclude each other."""

    label_calibrator: LabelCalibratorRecipe | None = None

    @property
    def needs(self) -> frozenset[Need]:
        return needs_of(self.scores)

    @property
    def scores_learn(self) -> bool:
        """Whether a score that others build on has something to fit: it finds the rows that it was fitted on less
        strange than new ones, so nothing must be fitted on its values there."""
        sources = {source for mix in self.combinations.values() for source in mix.sources}
        return any(learns(score) for name, score in self.scores.items() if name in sources | {self.confidence_score})

    @property
    def predictor_learns(self) -> bool:
        """Whether the predicted labels hang on limits that are fitted: everything after is fitted to how right they
        are."""
        return prediction.learns(self.predictor)

    @property
    def combination_learns(self) -> bool:
        """Whether the confidence comes from a combination, which is fitted itself."""
        return self.confidence_score in self.combinations

    @property
    def confidence_learns(self) -> bool:
        """Whether the score behind the confidence is fitted in any way."""
        return self.combination_learns or learns(self.scores[self.confidence_score])

    def fit(self, parts: Parts) -> Selector:
        """Fit each thing on its part.

        The calibrator may share rows with a rule that certifies nothing: a calibrator is monotone in its score, so
        which limit is chosen depends on the order of the rows alone. What the result is worth must be measured on
        other rows in any case.
        """
        if self.sets is None and acts_on_sets(self.policy):
            raise InvalidInput("the rule acts on the size of prediction sets, and there are none")
        for rows in (parts.statistics, parts.mixing, parts.calibration, parts.rule):
            bad = int((~rows.output.usable()).sum())
            if bad:
                raise InvalidInput(f"the model gave {bad} of {len(rows)} rows an output that is not a number")
        predictor = self.predictor.fit(parts.statistics.output.probabilities, parts.statistics.truth)

        def quality(rows: LabelledOutput) -> Array:
            return self.quality(predictor, rows)

        scores = {name: recipe.fit(parts.statistics, quality(parts.statistics)) for name, recipe in self.scores.items()}
        to_mix = {name: score.of(parts.mixing.output) for name, score in scores.items()} if self.combinations else {}
        mixed = {name: mix.fit(to_mix, quality(parts.mixing)) for name, mix in self.combinations.items()}

        rows = parts.calibration
        u = all_scores(scores, mixed, rows.output)[self.confidence_score]
        calibrator = fit_calibrator(self.calibrator, u, quality(rows), rows)
        u = all_scores(scores, mixed, parts.rule.output)[self.confidence_score]
        confidence = calibrator.confidence(evidence(calibrator.reads, u, parts.rule.output))
        return Selector(
            scores=scores,
            combinations=mixed,
            confidence_score=self.confidence_score,
            calibrator=calibrator,
            policy=self.policy.fit(confidence, quality(parts.rule)),
            predictor=predictor,
            sets=self.sets.fit(rows.output.probabilities, rows.classes) if self.sets else None,
            label_calibrator=self.label_calibrator.fit(rows) if self.label_calibrator else None,
        )

    def quality(self, predictor: Predictor, rows: LabelledOutput) -> Array:
        """How right each prediction was, [n], from 0 to 1."""
        return QUALITIES[self.right](predictor.of(rows.output.probabilities), rows.truth)


def all_scores(
    scores: Mapping[str, Score], combinations: Mapping[str, Combination], output: Output
) -> dict[str, Array]:
    """Every score and combination, [n] each."""
    values = {name: score.of(output) for name, score in scores.items()}
    return values | {name: mix.of(values) for name, mix in combinations.items()}


def needs_of(scores: Mapping[str, Score] | Mapping[str, ScoreRecipe]) -> frozenset[Need]:
    """What a model must hand over for these scores; probabilities always."""
    always: frozenset[Need] = frozenset({"probabilities"})
    return always.union(*(score.needs for score in scores.values()))
