"""The fitting run: labelled output in, a fitted selector and a report on rows it has not seen out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.selector import Judgement, Selector, SelectorRecipe
from uncertainty.output import LabelledOutput

Report = Callable[[Judgement, LabelledOutput], Mapping[str, Any]]
"""Statistics of decisions against the truth. The audit room, which lies above this one, supplies them."""

SMALLEST_FIT = 20


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


def fit_selector(
    recipe: SelectorRecipe,
    rows: LabelledOutput,
    *,
    report: Report,
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
    statistics, calibrated = split(fitted, 0.5, rng) if recipe.learns else (fitted, fitted)
    selector = recipe.fit(calibrated, statistics=statistics)
    return Fit(
        selector=selector,
        n_fitted=len(fitted),
        n_reported=len(reported),
        report=report(selector.decide(reported.output), reported),
    )


def split(rows: LabelledOutput, share: float, rng: np.random.Generator) -> tuple[LabelledOutput, LabelledOutput]:
    """Split at random, class by class, so that the first part holds `share` of the rows."""
    shuffled: NDArray[np.intp] = rng.permutation(len(rows))
    by_class = shuffled[np.argsort(rows.classes[shuffled], kind="stable")]
    # walking along the sorted classes, take a row whenever the running quota passes a whole number
    quota = np.floor(np.arange(1, len(rows) + 1) * share + 1e-9)
    first = np.diff(quota, prepend=0) > 0
    return rows.rows(np.sort(by_class[first])), rows.rows(np.sort(by_class[~first]))
