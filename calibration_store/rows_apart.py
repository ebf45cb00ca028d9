"""Which labelled rows each part of a fit gets, and which of them are a plain sample of the traffic."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from demur.policies.selector_recipe import FitSplit, SelectorRecipe
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import LabelledOutput

SMALLEST_FIT = 20

PARTS_OF_A_PROMISE = 2
"""So many times the rows of another part go to a rule that promises something: the promise needs them most."""

APART = (
    ". Rows of one `cluster` or with equal inputs count once; where equal inputs come from different cases, leave them"
    ' apart: `calibration: {equal_inputs: apart}`, or `equal_inputs="apart"` in Python'
)
"""What to do where rows that belong together leave too few."""

Positions = NDArray[np.intp]


class TooFewRows(ValueError):
    """The labelled data cannot carry a fit and an honest report on other rows. Label more."""


def _none() -> Positions:
    return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class RowsApart:
    """Positions of the rows of each part of a fit.

    All but `calibration` are a plain sample of the traffic: where rows stand for unequal numbers of records, only those
    that are left after thinning.
    """

    statistics: Positions
    mixing: Positions
    calibration: Positions
    """For the calibrators, each row counting by its weight."""

    counted: Positions
    """Those of `calibration` that are a plain sample: for prediction sets and gates."""

    rule: Positions
    reported: Positions = field(default_factory=_none)
    n_fitted: int = 0
    """All rows that were not kept for the report."""

    n_plain: int = 0
    """Rows that are left after thinning, fitted on or reported on."""

    share_kept: float = 1.0
    """Those, as a share of all."""

    clustered: bool = False
    """Whether some rows belong together. Then all of a cluster are in one part. Scores and calibrators see all of its
    rows; what is counted, promised or reported sees one of them, drawn at random (METHODS 10.8)."""

    def of(self, rows: LabelledOutput) -> FitSplit:
        plain = replace(rows, weights=None)
        return FitSplit(
            statistics=plain.rows(self.statistics),
            mixing=plain.rows(self.mixing),
            calibration=rows.rows(self.calibration),
            rule=plain.rows(self.rule),
            counted=plain.rows(self.counted) if self.clustered or rows.weights is not None else None,
        )


def rows_apart(
    n: int,
    recipes: Sequence[SelectorRecipe],
    *,
    report_share: float,
    rng: np.random.Generator,
    weights: Array | None = None,
    clusters: Positions | None = None,
) -> RowsApart:
    """Keep a random part of `n` labelled rows for the report, and split the other for the fit.

    `weights` [n] are the numbers of records that the rows stand for, and `clusters` [n] numbers of what they belong to.
    """
    plain = np.ones(n, dtype=bool) if weights is None else thinned(weights, rng)
    clustered = clusters is not None and len(np.unique(clusters)) < n
    ones = _one_of_each(clusters, plain, rng) if clusters is not None and clustered else np.arange(n)
    n_plain = int(plain[ones].sum())
    n_fitted = n_plain - round(report_share * n_plain)
    if n_fitted < SMALLEST_FIT or n_fitted == n_plain:
        left = "" if n_plain == len(ones) else f", {n_plain} of which are left after thinning,"
        left = f" of {len(ones)} clusters{left}" if clustered else left
        raise TooFewRows(
            f"{n} labelled rows{left} leave {n_fitted} to fit on and {n_plain - n_fitted} to report on;"
            f" at least {SMALLEST_FIT} to fit on and 1 to report on are needed{APART if clustered else ''}"
        )
    fitted, reported = split(ones, n_fitted / n_plain, rng, plain)
    parts = replace(
        parts_of(fitted, plain, recipes, rng),
        reported=reported[plain[reported]],
        n_fitted=len(fitted),
        n_plain=n_plain,
        share_kept=n_plain / n,
    )
    if clusters is None or not clustered:
        return parts

    def whole(rows: Positions) -> Positions:
        return np.flatnonzero(np.isin(clusters, clusters[rows]))

    statistics, mixing = whole(parts.statistics), whole(parts.mixing)
    certified = any(recipe.predictor_learns for recipe in recipes)  # limits of labels promise something of these rows
    return replace(
        parts,
        statistics=parts.statistics if certified else statistics[plain[statistics]],
        mixing=mixing[plain[mixing]],
        calibration=whole(parts.calibration),
        n_fitted=len(whole(fitted)),
        clustered=True,
    )


def _one_of_each(clusters: Positions, plain: Mask, rng: np.random.Generator) -> Positions:
    """One row of each cluster, drawn at random; of the plain ones where it has any."""
    order = rng.permutation(len(clusters))
    order = order[np.argsort(~plain[order], kind="stable")]
    _, first = np.unique(clusters[order], return_index=True)
    return np.sort(order[first])


def thinned(weights: Array, rng: np.random.Generator) -> Mask:
    """Keep rows [n] that stand for unequal numbers of records, so that those kept are a plain sample of the traffic.

    A record had a label with probability 1 / w, and keeps it here with w / max w, in a draw of its own: so every record
    had the same chance, 1 / max w, whatever was decided about it, and whatever is promised to hold for a sample of the
    traffic holds for the rows that are kept exactly as stated. A weighted count has no such promise.
    """
    return np.asarray(rng.random(len(weights)) * weights.max() < weights)


def parts_of(rows: Positions, plain: Mask, recipes: Sequence[SelectorRecipe], rng: np.random.Generator) -> RowsApart:
    """Split only where something that is fitted builds on something else that was; where nothing does, share.

    A rule that promises something gets twice the rows of each other part. It needs no rows of its own beside those of
    the calibrator if it ranks the score itself.

    `plain` says of all rows there are whether thinning left them, and `rows` are the positions to be split. Models of a
    cascade are fitted on the same parts.
    """
    scores_learn = any(recipe.scores_learn for recipe in recipes)
    predictor_learns = any(recipe.predictor_learns for recipe in recipes)
    combination_learns = any(recipe.combination_learns for recipe in recipes)
    builds_on_statistics = scores_learn or predictor_learns
    certifies = recipes[0].rule.certifies
    apart = certifies and not (len(recipes) == 1 and recipes[0].rule_shares_rows)
    n_last = (PARTS_OF_A_PROMISE if certifies else 1) + apart
    n_parts = n_last + builds_on_statistics + combination_learns
    statistics, rest = split(rows, 1 / n_parts, rng, plain) if builds_on_statistics else (rows, rows)
    mixing, calibration = split(rest, 1 / (n_last + 1), rng, plain) if combination_learns else (rest, rest)
    if not (any(recipe.decision_learns for recipe in recipes) or predictor_learns):
        calibration = rows
    rule = calibration
    if apart:
        calibration, rule = split(calibration, 1 / n_last, rng, plain)
    return RowsApart(
        statistics=statistics[plain[statistics]],
        mixing=mixing[plain[mixing]],
        calibration=calibration,
        counted=calibration[plain[calibration]],
        rule=rule[plain[rule]],
    )


def split(
    rows: Positions, share: float, rng: np.random.Generator, plain: Mask | None = None
) -> tuple[Positions, Positions]:
    """Split positions by a simple random draw, so that the first part holds `share` of them.

    Labels have no say in it. Whatever is fitted on one part may choose what it trusts by the labels there, and a
    promise counts errors in the other as in a sample of its own: rows drawn alike and independently keep that, since
    the parts are then independent samples. Parts that hold every class in the same proportion are not: a class that
    happens to be rare in one is as rare in the other, and the promise breaks where the fit trusted it for that.

    With `plain` [of all rows], each part gets its share of the rows that thinning left, which it left by chance alone.
    """
    shuffled: Positions = rng.permutation(rows)
    if plain is not None:
        shuffled = shuffled[np.argsort(plain[shuffled], kind="stable")]
    # walking along them from a random start, take a row whenever the running quota passes a whole number: every row is
    # as likely to be taken as any other
    n, taken = len(rows), int(len(rows) * share + 1e-9)
    walked = np.roll(shuffled, rng.integers(max(1, n)))
    first = np.diff(np.arange(n + 1) * taken // max(1, n)) > 0
    return np.sort(walked[first]), np.sort(walked[~first])
