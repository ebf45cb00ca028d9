"""A selector as it is configured, and how it is fitted, alone or as one of a cascade."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from demur.policies import prediction
from demur.policies.all_of import AllOf, Gate, behind, fitted_gates, gates_of, passing
from demur.policies.conformal_sets import SplitSets
from demur.policies.decision import Assessment
from demur.policies.graded import GradedRows
from demur.policies.label_sets import PredictionSets, PredictionSetsRecipe, needs_of_sets, seen_by
from demur.policies.moved_inputs import CurrentTraffic, RowWeights, row_weights
from demur.policies.moved_sets import moved_sets, takes_weights
from demur.policies.prediction import MostProbable, Predictor, PredictorRecipe
from demur.policies.rules import PolicyRecipe
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector import Selector, all_scores, needs_of
from demur.policies.threshold import Threshold
from demur.uncertainty import combination
from demur.uncertainty.calibrators import OF_ANSWERS, OF_SCORES, CalibratorRecipe, crossfitted, fit_calibrator
from demur.uncertainty.checks import Array, InvalidInput, Mask
from demur.uncertainty.combination import CombinationRecipe
from demur.uncertainty.correctness import QUALITIES
from demur.uncertainty.histogram_binning import HistogramBinning
from demur.uncertainty.label_confidence import LabelCalibratorRecipe
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.scores import ScoreRecipe, learns

FOLDS, SEED = 5, 0
"""How rows are split at random where a rule must see a calibrator that was fitted on other ones."""

NO_RULE = Threshold(limit=np.inf, meaning="no rule is fitted yet")


@dataclass(frozen=True, kw_only=True)
class FitSplit:
    """Labelled rows, apart as far as what is fitted later must not be fitted on what was fitted on before."""

    statistics: LabelledOutput
    """For the scores and the predictor."""

    mixing: LabelledOutput
    """For the combinations of scores."""

    calibration: LabelledOutput
    """For the calibrators, which are the only ones to count rows by their weights; and, unless `counted` says
    otherwise, for the prediction sets and the gates."""

    rule: LabelledOutput
    """For the rule."""

    counted: LabelledOutput | None = None
    """Of the rows of `calibration`, those that are a plain sample of the traffic: for prediction sets and gates, whose
    promise is about counted rows. None: all of them are."""

    current: CurrentTraffic | None = None
    """Traffic for which the rows of the rule are to stand, where its inputs have moved; None: they are like it."""

    @property
    def plain(self) -> LabelledOutput:
        return self.calibration if self.counted is None else self.counted


@dataclass(frozen=True, kw_only=True)
class SelectorRecipe:
    """A selector as it is configured, before it has seen data."""

    scores: Mapping[str, ScoreRecipe]
    confidence_score: str
    calibrator: CalibratorRecipe
    policy: PolicyRecipe | AllOf
    predictor: PredictorRecipe = field(default_factory=MostProbable)
    right: str = "exact"
    """Which of `QUALITIES` says how right a prediction was."""

    combinations: Mapping[str, CombinationRecipe] = field(default_factory=dict)
    sets: PredictionSetsRecipe | None = None
    """None where the predicted labels are the set."""

    label_calibrator: LabelCalibratorRecipe | None = None
    sampled: bool = False
    """Whether the probabilities themselves are frequencies of sampled replies."""

    observes: bool = False
    """Whether everything is answered, and the policy only says what it would have decided."""

    @property
    def needs(self) -> frozenset[Need]:
        return needs_of(self.scores, sampled=self.sampled) | needs_of_sets(self.sets)

    @property
    def when_unknown(self) -> str:
        """What becomes of a row about which the model said nothing. A policy that only observes asks nobody."""
        return "abstain" if self.observes else self.policy.otherwise

    @property
    def rule(self) -> PolicyRecipe:
        """The policy without its gates."""
        return self.policy.rule if isinstance(self.policy, AllOf) else self.policy

    @property
    def rule_ranks_score(self) -> bool:
        """Whether the rule may rank the score behind the confidence: it is as good an order as the confidence, and no
        calibrator has a part in it. Not where confidence may rise with the score, or hangs on more than the score."""
        rule, calibrator = self.rule, self.calibrator
        monotone = calibrator.reads in OF_SCORES and not isinstance(calibrator, HistogramBinning)
        return isinstance(rule, SelectiveRisk) and rule.ranks and monotone

    @property
    def rule_shares_rows(self) -> bool:
        """Whether a rule that promises something may be fitted on the rows of the calibrator: it ranks a score that
        knows nothing of them, and no gate before it was fitted on them."""
        gates = self.policy.gates if isinstance(self.policy, AllOf) else ()
        return self.rule_ranks_score and not any(gate.learns for gate in gates)

    @property
    def scores_learn(self) -> bool:
        """Whether a score that others build on has something to fit: it finds the rows that it was fitted on less
        strange than new ones, so nothing must be fitted on its values there."""
        sources = {source for mix in self.combinations.values() for source in mix.sources}
        return any(learns(score) for name, score in self.scores.items() if name in sources | self._decisive)

    @property
    def predictor_learns(self) -> bool:
        """Whether the predicted labels hang on something that is fitted: everything after is fitted to how right they
        are."""
        return prediction.learns(self.predictor)

    @property
    def combination_learns(self) -> bool:
        """Whether the confidence or the policy reads a combination that is fitted itself."""
        return any(combination.learns(mix) for name, mix in self.combinations.items() if name in self._decisive)

    @property
    def decision_learns(self) -> bool:
        """Whether a score that the confidence or the policy reads is fitted in any way."""
        mixed = {source for name, mix in self.combinations.items() if name in self._decisive for source in mix.sources}
        return self.combination_learns or any(
            learns(score) for name, score in self.scores.items() if name in self._decisive | mixed
        )

    @property
    def _decisive(self) -> frozenset[str]:
        return self.policy.reads | {self.confidence_score}

    def fit(self, parts: FitSplit) -> Selector:
        """Fit each thing on its part.

        The calibrator may share rows with a rule that certifies nothing, or that ranks the score itself: most
        calibrators are monotone in the score, so which limit is chosen depends on the order of the rows alone. Where
        one is not, a rule that certifies nothing sees what calibrators say of rows that they were not fitted on. What
        the result is worth must be measured on other rows in any case.
        """
        return fit_in_turn({"": self}, {"": parts})[0]

    def without_rule(self, parts: FitSplit) -> Selector:
        """Fit everything but the policy."""
        if self.sets is None and self.policy.acts_on_sets:
            raise InvalidInput("the rule acts on the size of prediction sets, and there are none")
        _ = readable(parts.rule)  # so that nothing is fitted in vain
        statistics, mixing, rows, plain = map(
            readable, (parts.statistics, parts.mixing, parts.calibration, parts.plain)
        )
        predictor = self.predictor.fit(statistics.output.probabilities, statistics.truth)

        def quality(rows: LabelledOutput) -> Array:
            return self.quality(predictor, rows)

        scores = {name: recipe.fit(statistics, quality(statistics)) for name, recipe in self.scores.items()}
        to_mix = {name: score.of(mixing.output) for name, score in scores.items()} if self.combinations else {}
        mixed = {name: mix.fit(to_mix, quality(mixing)) for name, mix in self.combinations.items()}

        u = all_scores(scores, mixed, rows.output)[self.confidence_score]
        sets: PredictionSets | None = None
        if self.sets:
            seen = seen_by(self.sets, plain.output)
            known: Mask = np.asarray(np.isfinite(seen).all(axis=1))
            if not known.all():
                if not known.any():
                    raise InvalidInput("prediction sets go by sampled replies, and no row has any; draw some")
                plain, seen = plain.rows(known), seen[known]
            right = plain.classes if plain.exclusive else plain.truth
            groups = None if plain.groups is None else plain.groups.tolist()
            sets = self.sets.fit(seen, right, groups)
            if parts.current is not None and isinstance(self.sets, SplitSets) and takes_weights(self.sets):
                sets = moved_sets(
                    self.sets, plain.output, right, current=parts.current, reference=readable(parts.rule).output
                )
        return Selector(
            scores=scores,
            combinations=mixed,
            confidence_score=self.confidence_score,
            calibrator=fit_calibrator(self.calibrator, u, quality(rows), rows, predictor.of(rows.output.probabilities)),
            policy=NO_RULE,
            predictor=predictor,
            sets=sets,
            label_calibrator=self.label_calibrator.fit(rows) if self.label_calibrator else None,
            sampled=self.sampled,
            observes=self.observes,
        )

    def quality(self, predictor: Predictor, rows: LabelledOutput) -> Array:
        """How right each prediction was, [n], from 0 to 1; 0 where nothing could be predicted."""
        usable = rows.output.usable()
        if not usable.all():
            known = np.zeros(len(rows))
            if usable.any():
                known[usable] = self.quality(predictor, rows.rows(usable))
            return known
        return QUALITIES[self.right](predictor.of(rows.output.probabilities), rows.truth)


def readable(rows: LabelledOutput) -> LabelledOutput:
    """Return the rows that something can be fitted on. Of a language model these are the ones whose reply could be
    read: the others are held, whatever is fitted. A model that gives no numbers, and says not why, is out of order."""
    usable = rows.output.usable()
    if usable.all():
        return rows
    if rows.output.unreadable is None:
        bad = int((~usable).sum())
        raise InvalidInput(f"the model gave {bad} of {len(rows)} rows an output that is not a number")
    if not usable.any():
        why = next(filter(None, rows.output.why_unusable()), "its probabilities are not numbers")
        raise InvalidInput(f"none of the model's {len(rows)} replies could be read; the first: {why}")
    return rows.rows(usable)


def fit_in_turn(recipes: Mapping[str, SelectorRecipe], parts: Mapping[str, FitSplit]) -> list[Selector]:
    """Fit models, by name, that are asked in turn until one answers: the rule of the first decides for all of them.

    The parts hold the same rows in the same order, each with the output of its model. The rule is fitted on what
    comes of a row after all models. So it makes its promise about the answers that leave the cascade, whichever model
    gave them. A model's gates are its own.
    """
    names = list(recipes)
    rule = recipes[names[0]].rule
    drafts = [recipes[name].without_rule(parts[name]) for name in names]
    gates = [
        fitted_gates(recipes[name].policy, _assessed(draft, readable(parts[name].plain)))
        for name, draft in zip(names, drafts, strict=True)
    ]
    rows = GradedRows.in_turn(
        [
            _graded(recipes[name], draft, own, parts[name].rule, certified=rule.certifies)
            for name, draft, own in zip(names, drafts, gates, strict=True)
        ]
    )
    fitted = rule.fit(_moved(rows, drafts[0], parts[names[0]]))
    return [
        replace(draft, policy=behind(own, fitted), asks_next=following)
        for draft, own, following in zip(drafts, gates, [*names[1:], ""], strict=True)
    ]


def rows_of_rule(
    recipes: Mapping[str, SelectorRecipe], selectors: Mapping[str, Selector], parts: Mapping[str, FitSplit]
) -> GradedRows:
    """Return the rows on which the rule of fitted selectors was fitted, as the rule saw them."""
    first = next(iter(recipes))
    certified = recipes[first].rule.certifies
    rows = GradedRows.in_turn(
        [
            _graded(recipe, selectors[name], gates_of(selectors[name].policy), parts[name].rule, certified=certified)
            for name, recipe in recipes.items()
        ]
    )
    return _moved(rows, selectors[first], parts[first])


def weights_of_rule(selector: Selector, parts: FitSplit) -> RowWeights | None:
    """Return how much each row of the rule stands for in the traffic of now; None where rows are like the traffic."""
    if parts.current is None:
        return None

    def confidence(output: Output) -> Array:
        return selector.assess(output, *selector.labels(output)).confidence

    return row_weights(parts.current, parts.plain.output, parts.rule.output, confidence)


def _moved(rows: GradedRows, selector: Selector, parts: FitSplit) -> GradedRows:
    """The rows with their weights, if they are to stand for other traffic."""
    found = weights_of_rule(selector, parts)
    return (
        rows
        if found is None
        else replace(
            rows,
            weights=found.weights,
            max_weight=found.max_weight,
            unlike=found.share_unlike,
            wrong_weights=found.wrong,
        )
    )


def _graded(
    recipe: SelectorRecipe, draft: Selector, gates: Sequence[Gate], rows: LabelledOutput, *, certified: bool
) -> GradedRows:
    """`certified`: the rule promises something, so that its rows are none of the calibrator's."""
    usable = rows.output.usable()
    assessed = _assessed(draft, readable(rows))
    confidence = np.full(len(rows), np.nan)  # what could not be read is not answered at any limit
    sure = assessed.confidence if certified else _unseen(recipe, draft, readable(rows), assessed)
    confidence[usable] = np.where(passing(gates, assessed), sure, np.nan)
    scores = np.full(len(rows), np.nan)
    scores[usable] = assessed.scores[draft.confidence_score]
    return GradedRows.of_one(
        confidence,
        recipe.quality(draft.predictor, rows),
        score=draft.confidence_score,
        scores=scores,
        by_score=recipe.rule_ranks_score,
        in_degrees=recipe.right != "exact",
    )


def _unseen(recipe: SelectorRecipe, draft: Selector, rows: LabelledOutput, assessed: Assessment) -> Array:
    """Confidence [n] in rows on which the calibrator was fitted as well, as it would be of new rows.

    A calibrator that may change the order of rows knows the ones that it was fitted on too well, and a limit that is
    chosen on these would be too low.
    """
    u = assessed.scores[draft.confidence_score]
    known = np.isfinite(u)
    if recipe.calibrator.reads not in OF_ANSWERS or known.sum() < 2 * FOLDS:
        return assessed.confidence
    confidence = assessed.confidence.copy()
    held = rows.rows(known)
    confidence[known] = crossfitted(
        recipe.calibrator,
        u[known],
        recipe.quality(draft.predictor, held),
        held,
        folds=FOLDS,
        rng=np.random.default_rng(SEED),
        predicted=draft.predictor.of(held.output.probabilities),
    )
    return confidence


def _assessed(draft: Selector, rows: LabelledOutput) -> Assessment:
    groups: Sequence[str | None] | None = None if rows.groups is None else rows.groups.tolist()
    return draft.assess(rows.output, *draft.labels(rows.output, groups))
