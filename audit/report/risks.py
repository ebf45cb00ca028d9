"""Risks of every cell, with the interval that its labels can carry (METHODS 9.3)."""

from dataclasses import dataclass

import numpy as np

from audit.evidence import Status
from audit.intervals import clopper_pearson
from audit.report.cells import RESAMPLED
from audit.report.grounds import (
    BOOTSTRAP,
    EXACT,
    NO_INTERVAL,
    SEQUENCE,
    Counts,
    Estimate,
    Grounds,
    estimate,
    grounds_of,
    over,
)
from audit.report.plan import Plan
from audit.report.resamples import Resamples
from audit.report.tally import Tally
from audit.report.weight_classes import upper_end
from audit.resampling import Interval
from audit.risk_sequence import fixed_bounds
from uncertainty.checks import Array

RISK = "share of predictions that are wrong, answered or not (of label sets: mean loss of similarity)"
SELECTIVE_RISK = "share of the answers that are wrong (of label sets: mean loss of similarity)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """A tally, how it was weighed, and its resamples."""

    by: Plan
    tally: Tally
    counts: Counts
    resamples: Resamples
    by_unit: Array
    """[b, cells, RESAMPLED]."""

    @classmethod
    def of(cls, by: Plan, tally: Tally, resamples: Resamples) -> "Evidence":
        return cls(
            by=by,
            tally=tally,
            counts=Counts(tally.counts),
            resamples=resamples,
            by_unit=resamples.of(tally.by_unit),
        )

    def ratio(self, above: str, below: str) -> tuple[Array, Array, Array]:
        """[cells] each: one weighted sum over another, and the bootstrap's interval for it."""
        value = over(self.counts[above], self.counts[below])
        values = over(self.by_unit[..., RESAMPLED.index(above)], self.by_unit[..., RESAMPLED.index(below)])
        return value, *self.resamples.intervals(values)


def risks(evidence: Evidence, *, answered: bool) -> list[Estimate]:
    """[cells], the mean loss of each cell, or of its answered rows, with the interval that its labels can carry."""
    a = "a_" if answered else ""
    value, lower, upper = evidence.ratio(a + "w_loss", a + "w")
    naive = over(evidence.counts[f"{a}k_loss"], evidence.counts[f"{a}known"])
    found = []
    for cell in range(len(value)):
        grounds = grounds_of(evidence.counts, evidence.by, cell, answered=answered)
        resampled = Interval(lower=lower[cell], upper=upper[cell])
        interval, method = _risk_interval(evidence, cell, grounds, resampled, answered=answered)
        found.append(
            estimate(
                "selective_risk" if answered else "risk",
                value[cell],
                interval,
                naive[cell],
                grounds,
                SELECTIVE_RISK if answered else RISK,
                method=method,
            )
        )
    return found


def _risk_interval(
    evidence: Evidence, cell: int, grounds: Grounds, resampled: Interval, *, answered: bool
) -> tuple[Interval, str]:
    """Exact where every label had the same chance; else by resampling, or, of few errors, by bets (METHODS 9.3).

    Of answers with labels of different weights the upper end is no lower than the one of `weight_classes`.
    """
    by, delta = evidence.by, evidence.by.settings.delta
    rows = evidence.tally.answered_labels
    rows = rows[rows["cell"] == cell]
    one_weight = by.all_known or (answered and len(rows) > 0 and np.ptp(rows["weight"]) <= 1e-9 * rows["weight"].max())
    if one_weight and by.binary and not by.clustered:
        return clopper_pearson(grounds.events, grounds.labelled, delta), EXACT
    if grounds.status == Status.EXACT_ONLY and answered and not by.clustered:
        return fixed_bounds(rows["loss"], rows["weight"], rows["count"], delta), SEQUENCE
    if grounds.status != Status.SUFFICIENT:
        return NO_INTERVAL, BOOTSTRAP
    if answered and not by.clustered:
        upper = max(resampled.upper, upper_end(rows["loss"], rows["weight"], rows["count"], delta))
        return Interval(lower=resampled.lower, upper=upper), BOOTSTRAP
    return resampled, BOOTSTRAP
