"""How surprising the labels of one part of the traffic are if a promise holds there, and if this fit breaks it (METHODS
10.6)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, ndtr

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.promise_tests import fit_spread, judge_count, judge_mean
from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.risk_sequence import fixed_bounds, fixed_p_values
from demur.audit.report.cells import RESAMPLED
from demur.audit.report.grounds import BOOTSTRAP, EXACT, REFUSED, SEQUENCE, Estimate, answers_are_silent, over
from demur.audit.report.resamples import FEWEST_UNITS
from demur.audit.report.risks import RiskEvidence
from demur.audit.report.weight_classes import clustered_size, upper_end
from demur.policies.conformal import labels_needed
from demur.uncertainty.checks import Array

SMALLEST = 1e-12
"""A target of 0 or 1 is taken as this far from it, and no p-value is told apart below it."""

HALVINGS = 40

ANSWERS, SETS, LABELS = "answers", "sets", "labels"
"""What a promise is about: answers that are wrong, sets that miss something, labels that are missing from sets."""

SUMS: Mapping[str, tuple[str, str]] = {
    ANSWERS: ("a_w_loss", "a_w"),
    SETS: ("set_w_missed", "set_w"),
    LABELS: ("set_w_lost", "set_w_right"),
}
"""Which sum stands over which."""


@dataclass(frozen=True, kw_only=True)
class PartEvidence:
    """The two p-values of a promise in one part, and the number behind them."""

    p_broken: float
    """How surprising so many misses are if the promise holds."""

    p_kept: float
    """How surprising so few misses are if this fit misses the target or more. 1 where there are too few labels."""

    alone: float
    """`p_broken` if the promise were one of this fit; it equals `p_broken` where it is."""

    value: float
    interval: Interval
    method: str
    spread: float | None = None
    """The share of misses that valid fits of `fit_n` rows exceed with probability delta. Fits are valid if their method
    keeps the promise on average over fits. None where the promise is one of this fit."""

    fit_n: int | None = None
    """The number of rows that the sets were fitted on; None where the promise is one of this fit."""

    whole: bool = True
    """Whether each label says right or wrong; False where some say how wrong."""


def rows_of_fit(promise: Mapping[str, Any], part: str, share_of_traffic: float) -> int | None:
    """Return how many labelled rows the limit behind a promise on average was chosen on; None for a promise of one fit.

    Artifacts that do not say it of each group are taken to have been fitted on rows in the proportion of the traffic.
    Where nothing is known it is the smallest number that gives a limit at all.
    """
    if promise.get("delta") is not None:
        return None
    target, own = float(promise["target"]), promise.get("n_of") or {}
    fewest = labels_needed(target) if 0 < target < 1 else 1
    n = own.get(part) if part in own else share_of_traffic * float(promise.get("n") or 0)
    return max(1, fewest, round(float(n or 0)))


def part_evidence(
    evidence: RiskEvidence, about: str, found: Estimate, cell: int, target: float, fit_n: int | None
) -> PartEvidence | None:
    """Return what the labels of a cell say of a promise; None where there are no labels that could say anything.

    `about` is one of `SUMS`, and `found` its estimate. Whether there is an answer hangs on numbers of labels and on how
    they were drawn, never on what they say. With `fit_n` the promise is one on average over fits of so many rows.
    """
    rows = _rows(evidence, about, cell)
    if not len(rows) or found.grounds.status == REFUSED:
        return None
    if about != ANSWERS and answers_are_silent(evidence.counts, evidence.by, cell):
        return None
    bar = min(max(target, SMALLEST), 1 - SMALLEST)
    as_rows = about != LABELS or _one_each(evidence, cell)
    if about == LABELS and as_rows and fit_n is not None:
        fit_n = max(1, round(fit_n * float(over(rows["count"].sum(), _count(evidence, "k_set", cell)))))
    whole = bool(np.isin(rows["loss"], (0.0, 1.0)).all())
    alike = evidence.by.all_known or bool(np.ptp(rows["weight"]) <= 1e-9 * rows["weight"].max())
    if as_rows and whole and alike and not evidence.by.clustered:
        made: PartEvidence | None = _counted(evidence, rows, bar, fit_n)
    elif as_rows and not evidence.by.clustered and found.grounds.status != EvidenceStatus.SUFFICIENT:
        made = _bet(evidence, rows, bar, fit_n)
    elif found.grounds.status == EvidenceStatus.SUFFICIENT and found.lower is not None and found.upper is not None:
        made = _resampled(evidence, about, cell, rows, bar, fit_n, Interval(lower=found.lower, upper=found.upper))
    else:
        return None
    if made is None:
        return None
    made = replace(made, whole=whole)
    return made if found.grounds.enough else _never_kept(made)


def _rows(evidence: RiskEvidence, about: str, cell: int) -> NDArray[np.void]:
    tally = evidence.tally
    table = {ANSWERS: tally.answered_labels, SETS: tally.set_labels, LABELS: tally.sets_with_labels}[about]
    return np.asarray(table[table["cell"] == cell])


def _count(evidence: RiskEvidence, name: str, cell: int) -> float:
    return float(evidence.counts[name][cell])


def _one_each(evidence: RiskEvidence, cell: int) -> bool:
    return _count(evidence, "k_set_right", cell) == _count(evidence, "k_set_with_right", cell)


def _never_kept(made: PartEvidence) -> PartEvidence:
    """Few labels may show that a promise is broken, and are never said to show that it is kept (METHODS 9.3)."""
    return replace(made, p_kept=1.0)


def _counted(evidence: RiskEvidence, rows: NDArray[np.void], target: float, fit_n: int | None) -> PartEvidence:
    """All labels weigh alike, and each is a miss or none: exact, however few they are."""
    delta = evidence.by.settings.delta
    labels, misses = int(rows["count"].sum()), int(rows["count"][rows["loss"] > 0].sum())
    alone = judge_count(misses, labels, target, delta)
    judged = alone if fit_n is None else judge_count(misses, labels, target, delta, "average", fit_n)
    return PartEvidence(
        p_broken=judged.p_broken,
        p_kept=judged.p_kept,
        alone=alone.p_broken,
        value=alone.rate,
        interval=clopper_pearson(misses, labels, delta),
        method=EXACT,
        spread=_spread(fit_n, target, delta),
        fit_n=fit_n,
    )


def _bet(evidence: RiskEvidence, rows: NDArray[np.void], target: float, fit_n: int | None) -> PartEvidence:
    """Labels of different weights, of which few are misses or few are none: by betting, which needs no large number."""
    delta = evidence.by.settings.delta
    loss, weight, count = rows["loss"], rows["weight"], rows["count"]
    alone, p_kept = fixed_p_values(loss, weight, count, target)
    p_broken = alone
    if fit_n is not None:
        n = fit_n

        def shown(level: float) -> bool:
            """Whether the risk is surely above what fits miss, each but for half of the level."""
            most = min(fit_spread(n, target, level / 2).upper, 1 - SMALLEST)
            return most > 0 and fixed_p_values(loss, weight, count, most)[0] <= level / 2

        p_broken = max(alone, _smallest(shown))
    return PartEvidence(
        p_broken=p_broken,
        p_kept=p_kept,
        alone=alone,
        value=float((loss * weight * count).sum() / (weight * count).sum()),
        interval=fixed_bounds(loss, weight, count, delta),
        method=SEQUENCE,
        spread=_spread(fit_n, target, delta),
        fit_n=fit_n,
    )


def _resampled(
    evidence: RiskEvidence,
    about: str,
    cell: int,
    rows: NDArray[np.void],
    target: float,
    fit_n: int | None,
    interval: Interval,
) -> PartEvidence | None:
    """Labels of different weights, or in clusters: from the resamples, with the careful upper end of `risks`."""
    above, below = SUMS[about]
    if (evidence.tally.by_unit[:, cell, RESAMPLED.index(below)] > 0).sum() < FEWEST_UNITS:
        return None

    def again(name: str) -> Array:
        return np.asarray(evidence.by_unit[:, cell, RESAMPLED.index(name)])

    value = float(over(_count(evidence, above, cell), _count(evidence, below, cell)))
    values = over(again(above), again(below))
    values = values[~np.isnan(values)]
    if not len(values):
        return None
    error = float(values.std())
    alone = _tail(values <= target, (target - value) / error if error > 0 else np.nan)
    p_kept = _tail(values >= target, (value - target) / error if error > 0 else np.nan)
    p_kept = max(p_kept, _p_of_upper_end(evidence, about, cell, rows, target, interval))
    level = evidence.by.settings.delta / 2 * (1 + 1e-6)  # an interval that reaches the target decides nothing
    alone = max(alone, level if interval.lower <= target else 0.0)
    p_kept = max(p_kept, level if interval.upper > target else 0.0)
    p_broken = alone
    if fit_n is not None and error > 0:
        mean, bar, deviation, variance = value, target, error, None
        if about == SETS and not np.isin(rows["loss"], (0.0, 1.0)).all():
            variance = _variance(evidence, cell, {"set_w_missed_missed": 1.0}, value)
        if about == LABELS:
            total = _count(evidence, "set_w", cell)
            mean = (_count(evidence, above, cell) - target * _count(evidence, below, cell)) / total
            bar, deviation = 0.0, float(np.std(over(again(above) - target * again(below), again("set_w"))))
            squares = {"set_w_lost_lost": 1.0, "set_w_lost_right": -2 * target, "set_w_right_right": target * target}
            variance = _variance(evidence, cell, squares, mean)
        p_broken = max(alone, judge_mean(mean, deviation, bar, fit_n=fit_n, loss_variance=variance).p_broken)
    delta = evidence.by.settings.delta
    return PartEvidence(
        p_broken=p_broken,
        p_kept=p_kept,
        alone=alone,
        value=value,
        interval=interval,
        method=BOOTSTRAP,
        spread=None if about == LABELS else _spread(fit_n, target, delta),
        fit_n=fit_n,
    )


def _variance(evidence: RiskEvidence, cell: int, squares: Mapping[str, float], mean: float) -> float:
    """The weighted variance of a loss, whose squares are sums of `COUNTS` times these factors."""
    total = sum(factor * _count(evidence, name, cell) for name, factor in squares.items())
    return max(0.0, float(over(total, _count(evidence, "set_w", cell))) - mean * mean)


def _tail(beyond: NDArray[np.bool_], distance: float) -> float:
    """A p-value from resamples; where none lies beyond, the normal one, if it is smaller than they can tell."""
    p = (1 + int(beyond.sum())) / (1 + len(beyond))
    return min(p, float(ndtr(distance))) if not beyond.any() and not np.isnan(distance) else p


def _p_of_upper_end(
    evidence: RiskEvidence, about: str, cell: int, rows: NDArray[np.void], target: float, interval: Interval
) -> float:
    """The error level at which the careful upper end reaches the target."""
    if about == LABELS and not _one_each(evidence, cell):
        return 0.0
    if evidence.by.clustered:
        size = clustered_size(rows["loss"], rows["weight"] * rows["count"], interval, evidence.by.settings.delta)
        return 0.0 if size is None else float(betaincc(size[0], size[1], target))
    return _smallest(lambda d: upper_end(rows["loss"], rows["weight"], rows["count"], d) <= target) / 2


def _smallest(shown: Callable[[float], bool]) -> float:
    """The smallest level in [SMALLEST, 1] at which something is shown; 1 where it is at none. It stays shown above."""
    if not shown(1 - SMALLEST):
        return 1.0
    low, high = np.log(SMALLEST), 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if shown(min(float(np.exp(middle)), 1 - SMALLEST)):
            high = middle
        else:
            low = middle
    return float(np.exp(high))


def _spread(fit_n: int | None, target: float, delta: float) -> float | None:
    return None if fit_n is None else fit_spread(fit_n, target, delta).upper
