"""From a model's output to a decision: scores, calibrator and rule as one object, online and offline the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from demur.policies.cheapest_label import CheapestLabel
from demur.policies.decision import Action, Assessment, Decisions, LabelConfidence
from demur.policies.judgement import Judgement
from demur.policies.label_sets import PredictionSets, needs_of_sets, not_ruled_out, shown
from demur.policies.prediction import MostProbable, Predictor
from demur.policies.promise import Promise
from demur.policies.rules import Policy
from demur.uncertainty.calibrators import Calibrator, evidence
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.combination import Combination
from demur.uncertainty.label_confidence import FittedLabelCalibrator
from demur.uncertainty.output import Need, Output
from demur.uncertainty.readings import without_logprobs
from demur.uncertainty.score_cascade import ScoreCascade
from demur.uncertainty.scores import Score, ScoreRecipe
from demur.uncertainty.top_k import top_labels

LOGPROBS: frozenset[Need] = frozenset({"logprobs", "top_logprobs"})

OBSERVED = "only observed"
WOULD = {
    Action.ANSWER: "answer",
    Action.REVIEW: "hold it for review",
    Action.ABSTAIN: "abstain",
    Action.ESCALATE: "ask another model",
}

UNUSABLE = "the model's output is not a number, and what is unknown is held"


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

    label_calibrator: FittedLabelCalibrator | None = None
    asks_next: str = ""
    """In a cascade, the model that is asked about what this one does not answer; empty for the last, or only one."""

    sampled: bool = False
    """Whether the probabilities themselves are frequencies of sampled replies."""

    observes: bool = False
    """Whether everything is answered, and the policy only says what it would have decided."""

    @cached_property
    def needs(self) -> frozenset[Need]:
        """All that any row may need; `wants_more` says which rows need samples."""
        return needs_of(self.scores, sampled=self.sampled) | needs_of_sets(self.sets)

    def wants_more(self, output: Output) -> Mask:
        """[n], which rows need sampled replies to be judged, from what is known without them.

        Rows within the limit of every cascade of scores need none, where only cascades read samples. A row that could
        not be read will be held, however many are drawn.
        """
        readable = output.readable()
        if self._always_samples:
            return readable
        wanted = np.zeros(len(output), dtype=bool)
        usable = output.usable()
        if not usable.any():
            return wanted
        known = output if usable.all() else output.rows(usable)
        for cascade in self._gates_of_samples:
            wanted[usable] |= cascade.asks(self.scores[cascade.first].of(known))
        return wanted

    @property
    def _always_samples(self) -> bool:
        """Whether something reads samples of every row."""
        gated = {cascade.then for cascade in self._gates_of_samples} - self._read_outright
        ungated = [name for name, score in self.scores.items() if "samples" in score.needs and name not in gated]
        return self.sampled or bool(ungated) or "samples" in needs_of_sets(self.sets)

    @property
    def _gates_of_samples(self) -> list[ScoreCascade]:
        mixes = self.combinations.values()
        return [mix for mix in mixes if isinstance(mix, ScoreCascade) and "samples" in self.scores[mix.then].needs]

    @property
    def _read_outright(self) -> frozenset[str]:
        """The scores whose value counts in every row."""
        first = {mix.first for mix in self.combinations.values() if isinstance(mix, ScoreCascade)}
        mixed = {
            name for mix in self.combinations.values() if not isinstance(mix, ScoreCascade) for name in mix.sources
        }
        return frozenset({self.confidence_score, *first, *mixed}) | self.policy.reads

    @property
    def promises(self) -> list[Promise]:
        """Everything that is promised, or was to be: by the rule, by the sets, by the limits of labels. A rule that
        only observes promises nothing of what is answered."""
        parts = (None if self.observes else self.policy, self.sets, self.predictor)
        promises = [part.promise for part in parts if part is not None]
        return [promise for promise in promises if promise is not None]

    def decide(self, output: Output, groups: Sequence[str | None] | None = None) -> Judgement:
        """Judge each row by itself: what is said of one does not depend on its neighbours in the batch.

        `groups` [n] is the caller's word for where each input comes from; nothing, for none.
        """
        judgement = self._decide(output, groups)
        return observed(judgement) if self.observes else judgement

    def _decide(self, output: Output, groups: Sequence[str | None] | None) -> Judgement:
        usable = output.usable()
        if usable.all():
            return self._judge(output, groups)
        nothing = self._nothing_known(output)
        known = None if groups is None else [group for group, yes in zip(groups, usable, strict=True) if yes]
        return nothing.replaced(usable, self._judge(output.rows(usable), known)) if usable.any() else nothing

    def assess(self, output: Output, predicted: Mask, inside: Mask) -> Assessment:
        """What the rule is to look at, from usable rows and the labels [n, C] that are predicted and not ruled out."""
        scores = all_scores(self.scores, self.combinations, output)
        read = evidence(self.calibrator.reads, scores[self.confidence_score], output, predicted)
        # a score of -inf would be surer than anything that was fitted on: no model says that of a row, so it is unknown
        confidence = np.where(np.isneginf(scores[self.confidence_score]), np.nan, self.calibrator.confidence(read))
        return Assessment(
            confidence=confidence,
            scores=scores,
            set_size=inside.sum(axis=1),
            in_set=np.asarray((inside & predicted).any(axis=1)),
            n_labels=inside.shape[1],
            set_promise=self.sets.promise_in_words if self.sets else "",
            more_labels=(inside & ~predicted).sum(axis=1) if self.sets else None,
            label_confidence=self._label_confidence(output, predicted),
            expected_cost=self.predictor.expected_cost(output.probabilities)
            if isinstance(self.predictor, CheapestLabel)
            else None,
        )

    def labels(self, output: Output, groups: Sequence[str | None] | None = None) -> tuple[Mask, Mask]:
        """[n, C] each: the labels that are predicted, and those that are not ruled out."""
        predicted = self.predictor.of(output.probabilities)
        return predicted, not_ruled_out(self.sets, output, groups) if self.sets else predicted

    def _judge(self, output: Output, groups: Sequence[str | None] | None) -> Judgement:
        predicted, inside = self.labels(output, groups)
        assessed = self.assess(output, predicted, inside)
        known = assessed.label_confidence
        return Judgement(
            usable=np.ones(len(output), dtype=bool),
            predicted=predicted,
            confidence=assessed.confidence,
            scores=dict(assessed.scores),
            members=shown(self.sets, inside, predicted) if self.sets else predicted,
            with_sets=self.sets is not None,
            label_confidence=known.values if known else None,
            decisions=self._passed_on(self._with_causes(self.policy.decide(assessed), assessed, output)),
        )

    def _with_causes(self, decisions: Decisions, assessed: Assessment, output: Output) -> Decisions:
        """Say of rows that are held because a score is unknown that the model told no log-probabilities, where the
        score needs them."""
        if not self._on_logprobs:
            return decisions
        unknown: Mask = np.isnan(np.array([assessed.scores[name] for name in self._on_logprobs])).any(axis=0)
        if not unknown.any():
            return decisions
        causes = without_logprobs(output)
        reasons = [
            f"{reason}: {cause}" if yes and cause and action is not Action.ANSWER else reason
            for yes, cause, action, reason in zip(
                unknown.tolist(), causes, decisions.actions, decisions.reasons, strict=True
            )
        ]
        return Decisions(actions=decisions.actions, reasons=tuple(reasons))

    @cached_property
    def _on_logprobs(self) -> list[str]:
        """Scores that need log-probabilities, and that the confidence or the rule hang on."""
        read = self._read_outright | {
            source for name, mix in self.combinations.items() if name in self._read_outright for source in mix.sources
        }
        return sorted(name for name in read & self.scores.keys() if self.scores[name].needs & LOGPROBS)

    def _label_confidence(self, output: Output, predicted: Mask) -> LabelConfidence | None:
        if self.label_calibrator is None:
            return None
        return LabelConfidence(
            predicted=predicted,
            top=top_labels(output.probabilities, self.label_calibrator.k),
            values=self.label_calibrator.of(output.probabilities),
        )

    def _passed_on(self, decisions: Decisions) -> Decisions:
        """In a cascade, what is not answered goes to the next model."""
        if not self.asks_next:
            return decisions
        return Decisions(
            actions=tuple(action if action is Action.ANSWER else Action.ESCALATE for action in decisions.actions),
            reasons=decisions.reasons,
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
            with_sets=self.sets is not None,
            label_confidence=np.full((n, self.label_calibrator.k), np.nan) if self.label_calibrator else None,
            decisions=self._passed_on(
                Decisions(
                    actions=(Action(self.policy.otherwise),) * n,
                    reasons=tuple(why or UNUSABLE for why in output.why_unusable()),
                )
            ),
        )


def observed(judgement: Judgement) -> Judgement:
    """Answer every prediction that there is, and keep what would have been decided beside it. Where nothing is
    predicted there is nothing to answer; nobody is asked to review it."""
    decided = judgement.decisions
    actions = [Action.ANSWER if usable else Action.ABSTAIN for usable in judgement.usable.tolist()]
    reasons = [
        f"{OBSERVED}; the policy would {WOULD[action]}: {reason}"
        for action, reason in zip(decided.actions, decided.reasons, strict=True)
    ]
    return replace(judgement, decisions=Decisions(actions=tuple(actions), reasons=tuple(reasons)), would_decide=decided)


def all_scores(
    scores: Mapping[str, Score], combinations: Mapping[str, Combination], output: Output
) -> dict[str, Array]:
    """Every score and combination, [n] each."""
    values = {name: score.of(output) for name, score in scores.items()}
    return values | {name: mix.of(values) for name, mix in combinations.items()}


def needs_of(scores: Mapping[str, Score] | Mapping[str, ScoreRecipe], *, sampled: bool = False) -> frozenset[Need]:
    """What a model must hand over for these scores; probabilities always, and samples where these are made of them."""
    always: frozenset[Need] = frozenset({"probabilities", "samples"} if sampled else {"probabilities"})
    return always.union(*(score.needs for score in scores.values()))
