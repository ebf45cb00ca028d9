"""The fitting run: labelled output in, a fitted selector and a report on rows it has not seen out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.selector import Judgement, Parts, Selector, SelectorRecipe, all_scores
from uncertainty.calibrators import crossfitted
from uncertainty.checks import Array, InvalidInput
from uncertainty.output import LabelledOutput

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
    """A fitted selector with what may be said about it."""

    selector: Selector
    n_fitted: int
    n_reported: int
    report: Mapping[str, Any]
    """Measured on rows that played no part in the fit."""

    crossfit: Mapping[str, Any]
    """Of the calibrator alone: each of the rows that it was fitted on, by one that was fitted without its fold. Empty
    where too few of them are wrong for that."""


def fit_selector(
    recipe: SelectorRecipe,
    rows: LabelledOutput,
    *,
    report: Report,
    cross_report: CrossReport,
    report_share: float,
    rng: np.random.Generator,
) -> Fit:
    """Fit on one random part, report on the other; every class is split in the same proportion."""
    n_fitted = len(rows) - round(report_share * len(rows))
    if n_fitted < SMALLEST_FIT or n_fitted == len(rows):
        raise TooFewRows(
            f"{len(rows)} labelled rows leave {n_fitted} to fit on and {len(rows) - n_fitted} to report on;"
            f" at least {SMALLEST_FIT} to fit on and 1 to report on are needed"
        )
    fitted, reported = split(rows, n_fitted / len(rows), rng)
    parts = parts_of(fitted, recipe, rng)
    selector = recipe.fit(parts)
    calibrated = parts.calibration
    u = all_scores(selector.scores, selector.combinations, calibrated.output)[recipe.confidence_score]
    right = recipe.quality(selector.predictor, calibrated)
    try:
        crossfit = cross_report(crossfitted(recipe.calibrator, u, right, calibrated, folds=FOLDS, rng=rng), right)
    except InvalidInput:  # the rows without a fold may all be right, which some calibrators cannot be fitted to
        crossfit = {}
    return Fit(
        selector=selector,
        n_fitted=len(fitted),
        n_reported=len(reported),
        report=report(selector.decide(reported.output), reported, recipe.quality(selector.predictor, reported)),
        crossfit=crossfit,
    )


def parts_of(rows: LabelledOutput, recipe: SelectorRecipe, rng: np.random.Generator) -> Parts:
    """Split only where something that is fitted builds on something else that was; where nothing does, share."""
    builds_on_statistics = recipe.scores_learn or recipe.predictor_learns
    n_parts = 1 + builds_on_statistics + recipe.combination_learns
    statistics, rest = split(rows, 1 / n_parts, rng) if builds_on_statistics else (rows, rows)
    mixing, calibration = split(rest, 0.5, rng) if recipe.combination_learns else (rest, rest)
    if not (recipe.confidence_learns or recipe.predictor_learns):
        calibration = rows
    calibration, rule = split(calibration, 0.5, rng) if recipe.policy.certifies else (calibration, calibration)
    return Parts(statistics=statistics, mixing=mixing, calibration=calibration, rule=rule)


def split(rows: LabelledOutput, share: float, rng: np.random.Generator) -> tuple[LabelledOutput, LabelledOutput]:
    """Split at random, class by class, so that the first part holds `share` of the rows."""
    shuffled: NDArray[np.intp] = rng.permutation(len(rows))
    by_class = shuffled[np.argsort(rows.classes[shuffled], kind="stable")]
    # walking along the sorted classes, take a row whenever the running quota passes a whole number
    quota = np.floor(np.arange(1, len(rows) + 1) * share + 1e-9)
    first = np.diff(quota, prepend=0) > 0
    return rows.rows(np.sort(by_class[first])), rows.rows(np.sort(by_class[~first]))
