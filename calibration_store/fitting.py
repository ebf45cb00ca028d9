"""The fitting run: labelled output in, a fitted selector and a report on rows it has not seen out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from demur.calibration_store.rows_apart import RowsApart, rows_apart
from demur.calibration_store.shortfall import Shortfall, at_chance, broken, too_few
from demur.policies.all_of import Gated
from demur.policies.cascade import CascadeResult, last_words
from demur.policies.covariate_shift import effective_number
from demur.policies.decision import Action
from demur.policies.judgement import Judgement
from demur.policies.moved_inputs import CurrentTraffic, RowWeights
from demur.policies.moved_sets import MovedLabelSets
from demur.policies.promise import Promise, among_labels, of_clusters
from demur.policies.rejection_rate import RankedLimit
from demur.policies.selector import Selector, all_scores
from demur.policies.selector_recipe import FitSplit, SelectorRecipe, fit_in_turn, rows_of_rule, weights_of_rule
from demur.policies.threshold import Threshold
from demur.uncertainty.calibrators import OF_SCORES, crossfitted
from demur.uncertainty.checks import Array, InvalidInput, Mask
from demur.uncertainty.correctness_calibrator import CorrectnessMap
from demur.uncertainty.output import LabelledOutput, Output

Report = Callable[[Judgement, LabelledOutput, Array], Mapping[str, Any]]
"""Statistics of decisions on labelled rows that were right to a degree [n]. The audit room, which lies above this
one, supplies them."""

CrossReport = Callable[[Array, Array], Mapping[str, Any]]
"""The same of confidences [n] and degrees of being right [n]."""

RankReport = Callable[[Mask, Array], Mapping[str, Any]]
"""How a score [n] ranks the errors among predictions that were right or not [n]."""

FOLDS = 5

NOTABLY_UNLIKE = 0.02
"""A larger share of the new traffic that no weight makes up for is worth a sentence."""


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted selector, or those of a cascade, with what may be said about it."""

    selectors: Mapping[str, Selector]
    """By model, in the order in which they are asked; a single one where there is no cascade."""

    n_fitted: int
    n_reported: int
    report: Mapping[str, Any]
    """Measured on rows that played no part in the fit: the decisions and answers that leave the cascade."""

    crossfit: Mapping[str, Any]
    """Of the first model's calibrator alone: each of the rows that it was fitted on, by one that was fitted without its
    fold. Empty where too few of them are wrong for that."""

    ranking: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By model, how the score behind its confidence ranks the errors among the reported rows."""

    shortfalls: Sequence[Shortfall] = ()
    """What the rows cannot carry. Such a fit holds everything, or goes by a score that tells nothing."""

    remarks: Sequence[str] = ()
    """What is worth knowing beside that."""

    clustered: bool = False
    """Whether some rows belong together, so that one of each cluster was counted."""

    moved: RowWeights | None = None
    """How much the rows of the rule stand for in other traffic, where its inputs have moved; None: they are like it."""

    coverage_there: float | None = None
    """The share of that traffic that would be answered, counted on its inputs."""

    among: str = ""
    """Which inputs its promises are about, where rows with some labels were left out; empty: all that come."""

    n_plain: int | None = None
    """Where rows stand for unequal numbers of records: how many are left after thinning. All that is counted, here and
    by whatever makes a promise, is counted on these."""

    @property
    def selector(self) -> Selector:
        """The selector of the model that is asked first."""
        return next(iter(self.selectors.values()))

    @property
    def promises(self) -> list[tuple[str, Promise]]:
        """What the models promise, by name; what the rule promises of all of them stands with the first."""
        rule = self.selector.policy.promise
        return [
            (name, among_labels(of_clusters(promise) if self.clustered else promise, self.among))
            for at, (name, selector) in enumerate(self.selectors.items())
            for promise in selector.promises
            if at == 0 or promise is not rule
        ]


def fit_selectors(
    recipes: Mapping[str, SelectorRecipe],
    rows: Mapping[str, LabelledOutput],
    *,
    report: Report,
    cross_report: CrossReport,
    report_share: float,
    rng: np.random.Generator,
    rank_report: RankReport | None = None,
    current: CurrentTraffic | None = None,
    among: str = "",
) -> Fit:
    """Fit on one random part, report on the other.

    Where rows stand for unequal numbers of records, the calibrators count them by their weights. Everything else sees
    only the rows that thinning leaves, a plain sample of the traffic, so that its promise holds as it is stated.

    `recipes` and `rows` are those of the model that is asked first and of the models of its cascade, in turn: the same
    labelled rows, with the output of each model. With `current`, for a single model, the rows of the rule stand for
    that traffic. Where rows with some labels were left out, `among` names the inputs that the others are drawn from.
    """
    names = list(recipes)
    first = rows[names[0]]
    listed = list(recipes.values())
    apart = rows_apart(
        len(first),
        listed,
        report_share=report_share,
        rng=rng,
        weights=first.weights,
        clusters=first.clusters,
    )
    short, remarks = too_few(recipes, apart, first.truth, groups(first), report_share=report_share)
    parts = {name: replace(apart.of(rows[name]), current=current) for name in names}
    selectors = dict(zip(names, fit_in_turn(recipes, parts), strict=True))
    held_out = {name: replace(rows[name], weights=None).rows(apart.reported) for name in names}
    judged = {name: selectors[name].decide(held_out[name].output, groups(held_out[name])) for name in names}
    ended = last_words(judged)
    qualities = {name: recipes[name].quality(selectors[name].predictor, held_out[name]) for name in names}
    right = ended.of(list(qualities.values()))
    ranking = {}
    for name in names:
        if rank_report is None:
            break
        u = _ranking_score(selectors[name], judged[name])
        defined = np.isfinite(u)
        if not defined.any():
            short = [*short, Shortfall(of="score", why=f"{_named(name, recipes)} is unknown in every row reported on")]
            continue
        good, bad = _told_apart(qualities[name][defined])
        ranking[name] = rank_report(good, u[defined])
        found, said = at_chance(_named(name, recipes), ranking[name], bad=bad)
        short, remarks = [*short, *found], [*remarks, *said]
    moved = weights_of_rule(selectors[names[0]], parts[names[0]])
    coverage = None if current is None else _coverage(selectors[names[0]], current.output)
    return Fit(
        selectors=selectors,
        moved=moved,
        coverage_there=coverage,
        n_fitted=apart.n_fitted,
        n_reported=len(apart.reported),
        report=report(ended.judgement, _as_ended(ended, list(held_out.values())), right),
        crossfit=_crossfit(listed[0], selectors[names[0]], apart, rows[names[0]], cross_report, rng),
        ranking=ranking,
        shortfalls=[*short, *_broken(recipes, selectors, parts, apart, short, report_share=report_share)],
        remarks=[
            *remarks,
            *_of_rate(selectors[names[0]]),
            *_of_calibrators(selectors),
            *_of_moved(moved, coverage, selectors[names[0]]),
            *(one for name in names for one in _left_out(name, recipes, selectors[name], rows[name])),
        ],
        n_plain=None if first.weights is None and not apart.clustered else apart.n_plain,
        clustered=apart.clustered,
        among=among,
    )


def _coverage(selector: Selector, output: Output) -> float:
    return float(np.mean([action is Action.ANSWER for action in selector.decide(output).decisions.actions]))


def _of_moved(moved: RowWeights | None, coverage: float | None, selector: Selector) -> list[str]:
    """What is to be known of rows that stand for other traffic."""
    if moved is None or coverage is None:
        return []
    sets = "" if selector.sets is None else ", and what prediction sets promise,"
    said = [
        f"The {len(moved.weights):,} rows of the rule are weighted by {moved.by} for {moved.n_current:,} unlabelled"
        f" rows of the new traffic. They tell as much of it as {moved.n_effective:,.0f} rows of its own."
        f" {coverage:.1%} of the new traffic would be answered. All other numbers of this report"
        f"{'' if isinstance(selector.sets, MovedLabelSets) else sets} are of traffic like the labelled rows."
    ]
    if isinstance(selector.sets, MovedLabelSets):
        said.append(
            f"Prediction sets are weighted for the new traffic too: their {len(selector.sets.weights):,} rows tell as"
            f" much of it as {effective_number(selector.sets.weights):,.0f} of its own."
        )
    if moved.imbalance is None:
        said.append(
            "Weighted, they are like the new traffic, as far as the confidence and what they were weighed by show it;"
            " whether the same input is still right as often takes labels"
        )
    if moved.share_unlike > NOTABLY_UNLIKE:
        said.append(
            f"{moved.share_unlike:.0%} of the new traffic is like hardly any labelled row: the weights make up for that"
            " only in part, so label some of it"
        )
    return said


def _left_out(name: str, recipes: Mapping[str, SelectorRecipe], selector: Selector, rows: LabelledOutput) -> list[str]:
    """How many rows nothing was fitted on, because the model says too little there."""
    if rows.output.unreadable is None:
        return []
    usable, said = rows.output.usable(), "outputs" if rows.output.replies is None else "replies"
    unread, remarks = int((~usable).sum()), []
    place = f"model {name}: " if len(recipes) > 1 else ""
    if unread:
        remarks.append(f"{place}{unread:,} of {len(rows):,} {said} could not be read; they are held, and not fitted on")
    if usable.any() and selector.calibrator.reads in OF_SCORES:
        score = selector.confidence_score
        u = all_scores(selector.scores, selector.combinations, rows.output.rows(usable))[score]
        if unknown := int((~np.isfinite(u)).sum()):
            remarks.append(
                f"{place}{score} is undefined for {unknown:,} of {len(rows):,} rows; they are held, and its calibrator"
                " was not fitted on them"
            )
    return remarks


def _told_apart(quality: Array) -> tuple[Mask, str]:
    """Which predictions a score should rank as the surer ones, and what the others are called. Degrees of being right
    are told apart at their mean: of label sets hardly any may be quite right."""
    if np.isin(quality, (0.0, 1.0)).all():
        return quality == 1, "errors"
    return quality > quality.mean(), "predictions below the average"


def _named(name: str, recipes: Mapping[str, SelectorRecipe]) -> str:
    """What the confidence of a model goes by."""
    recipe = recipes[name]
    score = recipe.confidence_score if recipe.calibrator.reads in OF_SCORES else "the confidence"
    return score if len(recipes) == 1 else f"{score} of model {name}"


def _ranking_score(selector: Selector, judgement: Judgement) -> Array:
    """[n], the score that the confidence is made of; a calibrator that looks at more makes it of that."""
    if selector.calibrator.reads not in OF_SCORES:
        return -judgement.confidence
    return judgement.scores[selector.confidence_score]


def _broken(
    recipes: Mapping[str, SelectorRecipe],
    selectors: Mapping[str, Selector],
    parts: Mapping[str, FitSplit],
    apart: RowsApart,
    known: Sequence[Shortfall],
    *,
    report_share: float,
) -> list[Shortfall]:
    """A rule that promises nothing though its rows are not too few: too many of them are wrong."""
    first = next(iter(selectors))
    policy, sets = selectors[first].policy, selectors[first].sets
    found = []
    if isinstance(sets, MovedLabelSets) and not sets.feasible:
        wrong = sets.wrong_weights or "the labelled rows are too unlike the new traffic, so label rows of it"
        why = f"{sets.promise.statement}; {wrong}"
        found.append(Shortfall(of="sets", why=why))
    rule = policy.rule if isinstance(policy, Gated) else policy
    promise = rule.promise
    if promise is None or promise.feasible or any(one.of == "rule" for one in known):
        return found
    why = rule.meaning if isinstance(rule, Threshold) else promise.statement
    if parts[first].current is not None:
        return [*found, Shortfall(of="rule", why=why)]
    rows = rows_of_rule(recipes, selectors, parts)
    n_labels = round(apart.n_plain / apart.share_kept)
    return [broken(recipes, rows, why, apart, n_labels=n_labels, report_share=report_share)]


def _of_rate(selector: Selector) -> list[str]:
    """Say where a rule holds another share of the rows than was asked for."""
    rule = selector.policy.rule if isinstance(selector.policy, Gated) else selector.policy
    return rule.remarks if isinstance(rule, RankedLimit) else []


def _of_calibrators(selectors: Mapping[str, Selector]) -> list[str]:
    """Say which confidence was chosen where a calibrator chooses, and why."""
    return [
        f"model {name}: {selector.calibrator.remark}" if len(selectors) > 1 else selector.calibrator.remark
        for name, selector in selectors.items()
        if isinstance(selector.calibrator, CorrectnessMap)
    ]


def _as_ended(ended: CascadeResult, held_out: Sequence[LabelledOutput]) -> LabelledOutput:
    """The rows with the probabilities that the last word about each is based on."""
    return replace(
        held_out[0],
        truth=ended.of([rows.truth for rows in held_out]),
        output=Output(
            logits=ended.of([rows.output.logits for rows in held_out]),
            probabilities=ended.of([rows.output.probabilities for rows in held_out]),
        ),
    )


def _crossfit(
    recipe: SelectorRecipe,
    selector: Selector,
    apart: RowsApart,
    labelled: LabelledOutput,
    report: CrossReport,
    rng: np.random.Generator,
) -> Mapping[str, Any]:
    positions = apart.counted if apart.clustered else apart.calibration  # of clusters one row, or folds would share it
    rows = labelled.rows(positions)
    plain = np.isin(positions, apart.counted)
    usable = rows.output.usable()
    if not usable.all():
        rows, plain = rows.rows(usable), plain[usable]
    u = all_scores(selector.scores, selector.combinations, rows.output)[recipe.confidence_score]
    if not (known := np.isfinite(u)).all():
        rows, plain, u = rows.rows(known), plain[known], u[known]
    right = recipe.quality(selector.predictor, rows)
    try:
        given = selector.predictor.of(rows.output.probabilities)
        confidence = crossfitted(recipe.calibrator, u, right, rows, folds=FOLDS, rng=rng, predicted=given)
        return report(confidence[plain], right[plain])
    except InvalidInput:  # the rows without a fold may all be right, which some calibrators cannot be fitted to
        return {}


def groups(rows: LabelledOutput) -> list[str | None] | None:
    """The group of each row, if any is known."""
    return None if rows.groups is None else list(rows.groups)
