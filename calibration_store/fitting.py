"""The fitting run: labelled output in, a fitted selector and a report on rows it has not seen out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.cascade import Ended, last_words
from policies.judgement import Judgement
from policies.selector import Selector, all_scores
from policies.selector_recipe import Parts, SelectorRecipe, fit_in_turn
from uncertainty.calibrators import crossfitted
from uncertainty.checks import Array, InvalidInput
from uncertainty.output import LabelledOutput, Output

Report = Callable[[Judgement, LabelledOutput, Array], Mapping[str, Any]]
"""Statistics of decisions on labelled rows that were right to a degree [n]. The audit room, which lies above this
one, supplies them."""

CrossReport = Callable[[Array, Array], Mapping[str, Any]]
"""The same of confidences [n] and degrees of being right [n]."""

SMALLEST_FIT = 20
FOLDS = 5


class TooFewRows(ValueError):
    """The labelled data cannot carry a fit and an honest report on other rows. Label more."""


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

    @property
    def selector(self) -> Selector:
        """Of the model that is asked first."""
        return next(iter(self.selectors.values()))


def fit_selectors(
    recipes: Mapping[str, SelectorRecipe],
    rows: Mapping[str, LabelledOutput],
    *,
    report: Report,
    cross_report: CrossReport,
    report_share: float,
    rng: np.random.Generator,
) -> Fit:
    """Fit on one random part, report on the other; every class is split in the same proportion.

    `recipes` and `rows` are those of the model that is asked first and of the models of its cascade, in turn: the same
    labelled rows, with the output of each model.
    """
    names = list(recipes)
    first = rows[names[0]]
    n_fitted = len(first) - round(report_share * len(first))
    if n_fitted < SMALLEST_FIT or n_fitted == len(first):
        raise TooFewRows(
            f"{len(first)} labelled rows leave {n_fitted} to fit on and {len(first) - n_fitted} to report on;"
            f" at least {SMALLEST_FIT} to fit on and 1 to report on are needed"
        )
    fitted, reported = split(np.arange(len(first)), first.classes, n_fitted / len(first), rng)
    apart = parts_of(fitted, first.classes, list(recipes.values()), rng)
    parts = {name: apart.of(rows[name]) for name in names}
    selectors = dict(zip(names, fit_in_turn(recipes, parts), strict=True))
    held_out = {name: rows[name].rows(reported) for name in names}
    ended = last_words({name: selectors[name].decide(held_out[name].output, groups(held_out[name])) for name in names})
    right = ended.of([recipes[name].quality(selectors[name].predictor, held_out[name]) for name in names])
    return Fit(
        selectors=selectors,
        n_fitted=len(fitted),
        n_reported=len(reported),
        report=report(ended.judgement, _as_ended(ended, list(held_out.values())), right),
        crossfit=_crossfit(recipes[names[0]], selectors[names[0]], parts[names[0]].calibration, cross_report, rng),
    )


def _as_ended(ended: Ended, held_out: Sequence[LabelledOutput]) -> LabelledOutput:
    """The rows with the probabilities that the last word about each is based on."""
    return replace(
        held_out[0],
        output=Output(
            logits=ended.of([rows.output.logits for rows in held_out]),
            probabilities=ended.of([rows.output.probabilities for rows in held_out]),
        ),
    )


def _crossfit(
    recipe: SelectorRecipe, selector: Selector, rows: LabelledOutput, report: CrossReport, rng: np.random.Generator
) -> Mapping[str, Any]:
    u = all_scores(selector.scores, selector.combinations, rows.output)[recipe.confidence_score]
    right = recipe.quality(selector.predictor, rows)
    try:
        return report(crossfitted(recipe.calibrator, u, right, rows, folds=FOLDS, rng=rng), right)
    except InvalidInput:  # the rows without a fold may all be right, which some calibrators cannot be fitted to
        return {}


@dataclass(frozen=True, kw_only=True)
class RowsApart:
    """Positions of the rows of each part of a fit."""

    statistics: NDArray[np.intp]
    mixing: NDArray[np.intp]
    calibration: NDArray[np.intp]
    rule: NDArray[np.intp]

    def of(self, rows: LabelledOutput) -> Parts:
        return Parts(
            statistics=rows.rows(self.statistics),
            mixing=rows.rows(self.mixing),
            calibration=rows.rows(self.calibration),
            rule=rows.rows(self.rule),
        )


def parts_of(
    rows: NDArray[np.intp], classes: NDArray[np.intp], recipes: Sequence[SelectorRecipe], rng: np.random.Generator
) -> RowsApart:
    """Split only where something that is fitted builds on something else that was; where nothing does, share.

    `classes` are those of all rows there are, of which `rows` are the positions to be split. Models of a cascade are
    fitted on the same parts.
    """
    scores_learn = any(recipe.scores_learn for recipe in recipes)
    predictor_learns = any(recipe.predictor_learns for recipe in recipes)
    combination_learns = any(recipe.combination_learns for recipe in recipes)
    builds_on_statistics = scores_learn or predictor_learns
    n_parts = 1 + builds_on_statistics + combination_learns
    statistics, rest = split(rows, classes, 1 / n_parts, rng) if builds_on_statistics else (rows, rows)
    mixing, calibration = split(rest, classes, 0.5, rng) if combination_learns else (rest, rest)
    if not (any(recipe.decision_learns for recipe in recipes) or predictor_learns):
        calibration = rows
    rule = calibration
    if recipes[0].rule.certifies:
        calibration, rule = split(calibration, classes, 0.5, rng)
    return RowsApart(statistics=statistics, mixing=mixing, calibration=calibration, rule=rule)


def split(
    rows: NDArray[np.intp], classes: NDArray[np.intp], share: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split positions at random, class by class, so that the first part holds `share` of them."""
    shuffled: NDArray[np.intp] = rng.permutation(rows)
    by_class = shuffled[np.argsort(classes[shuffled], kind="stable")]
    # walking along the sorted classes, take a row whenever the running quota passes a whole number
    quota = np.floor(np.arange(1, len(rows) + 1) * share + 1e-9)
    first = np.diff(quota, prepend=0) > 0
    return np.sort(by_class[first]), np.sort(by_class[~first])


def groups(rows: LabelledOutput) -> list[str | None] | None:
    """The group of each row, if any is known."""
    return None if rows.groups is None else list(rows.groups)
