"""Which records get a label, how likely, and what a label then stands for (METHODS 9.1)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.categories import grouped
from demur.audit.metrics.promise_tests import PromiseStatus
from demur.audit.metrics.weighted_rows import at, column_of, label_draw, least_probability
from demur.uncertainty.checks import (
    Array,
    InvalidInput,
    Mask,
    fraction,
    one_of,
    outcomes,
    real_number,
    same_length,
    unit_interval,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Allocation:
    """Label probabilities [n], and the scale s that gave them; inf where the budget is more than can be used."""

    scale: float
    probabilities: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class CompletionWeights:
    weights: Array
    """[n], 0 where there is no review, NaN where records were drawn from a stratum without any completed review."""

    completion: Mapping[Hashable, float]
    """Per stratum, the share of drawn records that is reviewed; NaN where none was drawn."""

    share_missing: float
    refused: Sequence[Hashable]


@dataclass(frozen=True, kw_only=True)
class MissingBounds:
    """The least and the largest risk that the missing reviews leave open."""

    lower: float
    upper: float
    share_missing: float


@dataclass(frozen=True, kw_only=True)
class DowngradedVerdict:
    status: PromiseStatus
    downgraded: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelDraw:
    """How many of `n` records each label stands for, as far as it counts."""

    weights: Array
    """[n], 0 where there is no label, or one that was not drawn."""

    common: bool
    """Whether every record had one and the same probability to get a label: only then may labelled rows be counted as
    if they were all rows."""


def allocate(confidence: Any, budget: Any, floor: Any = 0.01) -> Allocation:
    """Spread `budget` expected labels over records [n]: min(1, max(floor, s sqrt(c (1 - c)))), s the smallest that
    spends it.

    Neyman (1934), Zrnic & Candes (2024): the less sure, the more often. Certain records stay at the floor.
    """
    c, least = unit_interval("confidence", confidence), least_probability(floor, np.empty(0))
    total, n = real_number("budget", budget), len(c)
    if total < n * least * (1 - 1e-9):
        raise InvalidInput(f"budget is {total:g}, below the floor of {least:g} times {n} records")
    spread = np.sqrt(c * (1 - c))
    unsure = spread > 0
    leaves, arrives = least / spread[unsure], 1 / spread[unsure]  # the floor; the probability of 1
    bends = np.unique(np.concatenate([leaves, arrives]))

    def spent(scale: float) -> float:
        return float(np.clip(scale * spread, least, 1.0).sum())

    # between two bends the sum is a straight line; find the first bend at which the budget is spent
    low, high = 0, len(bends)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if spent(float(bends[middle])) >= total * (1 - 1e-12) else (middle + 1, high)
    if total <= n * least:
        scale = 0.0
    elif low == len(bends):
        return Allocation(scale=np.inf, probabilities=np.where(unsure, 1.0, least))
    else:
        on_line = (leaves < bends[low]) & (arrives >= bends[low])
        fixed = least * (n - int(unsure.sum()) + int((leaves >= bends[low]).sum())) + int((arrives < bends[low]).sum())
        scale = float((total - fixed) / spread[unsure][on_line].sum()) if on_line.any() else float(bends[low])
    return Allocation(scale=scale, probabilities=np.clip(scale * spread, least, 1.0))


def label_weights(labelled: Any, probability: Any) -> Array:
    """[n], 1 / probability where there is a label, else 0: how many records each label stands for."""
    known, chance = label_draw(labelled, probability)
    return known / chance


def label_draw_of(reviewed: Any, known: Any, probability: Any) -> LabelDraw:
    """Return what each label stands for; [n] each: whether a drawn review gave one, whether there is any, and the
    probability of the draw, which may be 0.

    A label that nobody drew has no known probability and counts for nothing, unless every record has a label.
    """
    drawn, any_label = (outcomes(name, x) == 1 for name, x in (("reviewed", reviewed), ("known", known)))
    chance = unit_interval("probability", probability)
    same_length(reviewed=drawn, known=any_label, probability=chance)
    if any_label.all():
        return LabelDraw(weights=np.ones(len(chance)), common=True)
    possible = chance > 0
    weights = np.zeros(len(chance))
    if possible.any():
        weights[possible] = label_weights(drawn[possible], chance[possible])
    return LabelDraw(weights=weights, common=bool(possible.all() and (chance == chance[0]).all()))


def completion_weights(selected: Any, completed: Any, probability: Any, strata: Any) -> CompletionWeights:
    """Weights of the completed reviews, raised within each stratum for those that were drawn and are missing.

    Right only if, within a stratum, completion does not depend on the outcome; strata hold what drives turnaround. A
    stratum with drawn records and no review is refused: its NaN makes every metric raise that would include it.
    """
    drawn, done, chance = reviews(selected, completed, probability)
    codes, names = grouped("strata", strata)
    same_length(selected=drawn, strata=codes)
    n_drawn, n_done = (np.bincount(codes, weights=x, minlength=len(names)) for x in (drawn, done))
    with np.errstate(invalid="ignore", divide="ignore"):  # none drawn; none completed
        share = n_done / n_drawn
        weights = np.where(done, 1 / (chance * share[codes]), np.where(drawn & (n_done[codes] == 0), np.nan, 0.0))
    return CompletionWeights(
        weights=weights,
        completion=dict(zip(names, share.tolist(), strict=True)),
        share_missing=_share_missing(drawn, done),
        refused=[name for name, some, none in zip(names, n_drawn > 0, n_done == 0, strict=True) if some and none],
    )


def missing_bounds(errors: Any, selected: Any, completed: Any, probability: Any) -> MissingBounds:
    """Bounds of the risk that assume nothing of the missing reviews: none of them an error, or all (Manski 1989).

    `errors` are in [0, 1], read where the review is completed. NaN where nothing was drawn.
    """
    drawn, done, chance = reviews(selected, completed, probability)
    rows = column_of("errors", errors)
    same_length(errors=rows, selected=drawn)
    wrong = np.zeros(len(drawn))
    if done.any():
        wrong[done] = unit_interval("errors", at(rows, done))
    if not drawn.any():
        return MissingBounds(lower=np.nan, upper=np.nan, share_missing=np.nan)
    weights = drawn / chance
    weights /= weights.sum()
    lower = float(weights @ wrong)
    return MissingBounds(
        lower=lower, upper=lower + float(weights[~done].sum()), share_missing=_share_missing(drawn, done)
    )


def missing_verdict(
    status: Any, lower: Any, upper: Any, target: Any, share_missing: Any, max_missing: Any = 0.05
) -> DowngradedVerdict:
    """Return what is left of a verdict when drawn reviews are missing: nothing, if the worst of them could turn it.

    `lower` and `upper` are those of `missing_bounds`. If more than `max_missing` of the drawn reviews are missing, kept
    with `upper` above the target and broken with `lower` at or below it become not enough evidence. Apply it last.
    """
    one_of("status", status, list(PromiseStatus))
    low, high = (fraction(name, real_number(name, x)) for name, x in (("lower", lower), ("upper", upper)))
    bar = fraction("target", real_number("target", target))
    missing, most = (
        fraction(name, real_number(name, x))
        for name, x in (("share_missing", share_missing), ("max_missing", max_missing))
    )
    if low > high:
        raise InvalidInput(f"lower is {low}, above upper = {high}")
    turned = (status == PromiseStatus.KEPT and high > bar) or (status == PromiseStatus.BROKEN and low <= bar)
    downgraded = missing > most and turned
    return DowngradedVerdict(
        status=PromiseStatus.UNDECIDED if downgraded else PromiseStatus(status), downgraded=downgraded
    )


def adaptive_spot_check(confidence: Any, reference_confidence: Any, rate: Any = 0.02, floor: Any = 0.01) -> Allocation:
    """Return the probability [n] of a label for answered records: the less sure, the more often.

    min(1, max(floor, s sqrt(c (1 - c)))), with s fixed beforehand so that recent answered traffic,
    `reference_confidence` [m], would have got a share `rate` of labels. Where errors follow confidence an alarm comes
    sooner; where they do not, later, so keep `floor` near half of the rate (METHODS 10.14).
    """
    c = unit_interval("confidence", confidence)
    before = unit_interval("reference_confidence", reference_confidence)
    share = fraction("rate", real_number("rate", rate), open_low=True)
    least = least_probability(floor, np.empty(0))
    if least > share:
        raise InvalidInput(f"floor is {least:g}, above the rate of {share:g}")
    scale = allocate(before, share * len(before), least).scale
    spread = np.sqrt(c * (1 - c))
    steep = np.where(spread > 0, np.inf, 0.0) if np.isinf(scale) else scale * spread
    return Allocation(scale=scale, probabilities=np.clip(steep, least, 1.0))


def reviews(selected: Any, completed: Any, probability: Any) -> tuple[Mask, Mask, Array]:
    """Return which records [n] were drawn for a review, which reviews are completed, and the chance of each draw.

    A record that was completed and not drawn raises.
    """
    drawn, chance = label_draw(selected, probability)
    done = outcomes("completed", completed) == 1
    same_length(selected=drawn, completed=done)
    if (done & ~drawn).any():
        raise InvalidInput("completed holds a record that was not selected")
    return drawn, done, chance


def _share_missing(drawn: Mask, done: Mask) -> float:
    return float(1 - done.sum() / drawn.sum()) if drawn.any() else np.nan
