"""Risks of every cell, with the interval that its labels can carry (METHODS 9.3)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.risk_sequence import fixed_bounds
from demur.audit.report.cells import RESAMPLED
from demur.audit.report.grounds import (
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
    set_grounds_of,
)
from demur.audit.report.plan import AuditPlan
from demur.audit.report.resamples import FEWEST_UNITS, Resamples
from demur.audit.report.tally import Tally
from demur.audit.report.weight_classes import clustered_end, upper_end
from demur.uncertainty.checks import Array

RISK = "share of predictions that are wrong, answered or not (of label sets: mean loss of similarity)"
SELECTIVE_RISK = "share of the answers that are wrong (of label sets: mean loss of similarity)"
SETS_LACK = "of the sets lack the right label"
LABELS_LACK = "share of the labels that hold that are missing from their sets"
LABELS_NOT_SAID = "share of the labels that hold that are not predicted"
ROWS_LABELS_NOT_SAID = "share of a row's labels that are not predicted, on average"


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskEvidence:
    """A tally, how it was weighed, and its resamples."""

    by: AuditPlan
    tally: Tally
    counts: Counts
    resamples: Resamples
    by_unit: Array
    """[b, cells, RESAMPLED]."""

    of_predicted: bool = False
    """Whether what is said of prediction sets is said of predicted labels here."""

    @classmethod
    def of(cls, by: AuditPlan, tally: Tally, resamples: Resamples) -> "RiskEvidence":
        return cls(
            by=by,
            tally=tally,
            counts=Counts(tally.counts),
            resamples=resamples,
            by_unit=resamples.of(tally.by_unit),
        )

    def predicted(self) -> "RiskEvidence | None":
        """The evidence with the predicted labels in the place of prediction sets; None where they were not counted."""
        if self.tally.predicted is None:
            return None
        return replace(RiskEvidence.of(self.by, self.tally.of_predicted(), self.resamples), of_predicted=True)

    def ratio(self, above: str, below: str) -> tuple[Array, Array, Array]:
        """[cells] each: one weighted sum over another, and the bootstrap's interval for it: none of a cell whose labels
        lie in fewer units than say how much these vary, such as the records of a few patients."""
        value = over(self.counts[above], self.counts[below])
        values = over(self.by_unit[..., RESAMPLED.index(above)], self.by_unit[..., RESAMPLED.index(below)])
        labelled = (self.tally.by_unit[..., RESAMPLED.index(below)] > 0).sum(axis=0)
        lower, upper = (np.where(labelled < FEWEST_UNITS, np.nan, end) for end in self.resamples.intervals(values))
        return value, lower, upper


def risks(evidence: RiskEvidence, *, answered: bool) -> list[Estimate]:
    """[cells], the mean loss of each cell, or of its answered rows, with the interval that its labels can carry."""
    a = "a_" if answered else ""
    value, lower, upper = evidence.ratio(a + "w_loss", a + "w")
    naive = over(evidence.counts[f"{a}k_loss"], evidence.counts[f"{a}known"])
    found = []
    for cell in range(len(value)):
        grounds = grounds_of(evidence.counts, evidence.by, cell, answered=answered)
        resampled = Interval(lower=lower[cell], upper=upper[cell])
        rows = _in_cell(evidence.tally.answered_labels, cell) if answered else None
        interval, method = _careful(evidence.by, grounds, resampled, rows)
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


def missed(evidence: RiskEvidence) -> list[Estimate]:
    """[cells], the share of prediction sets without the right label, with the interval that their labels can carry."""
    value, lower, upper = evidence.ratio("set_w_missed", "set_w")
    naive = over(evidence.counts["k_set_missed"], evidence.counts["k_set"])
    found = []
    for cell in range(len(value)):
        rows = _in_cell(evidence.tally.set_labels, cell)
        grounds = set_grounds_of(evidence.counts, evidence.by, cell, rows)
        interval, method = _careful(evidence.by, grounds, Interval(lower=lower[cell], upper=upper[cell]), rows)
        name, meaning = ("set_miscoverage", SETS_LACK)
        if evidence.of_predicted:
            name, meaning = ("row_labels_not_predicted", ROWS_LABELS_NOT_SAID)
        found.append(estimate(name, value[cell], interval, naive[cell], grounds, meaning, method=method))
    return found


def missed_labels(evidence: RiskEvidence) -> list[Estimate]:
    """[cells], of all labels that hold the share that is missing from its set, with the interval that their labels can
    carry. Rows for which no label holds say nothing of it."""
    value, lower, upper = evidence.ratio("set_w_lost", "set_w_right")
    naive = over(evidence.counts["k_set_lost"], evidence.counts["k_set_right"])
    found = []
    for cell in range(len(value)):
        rows = _in_cell(evidence.tally.sets_with_labels, cell)
        grounds = set_grounds_of(evidence.counts, evidence.by, cell, rows)
        resampled = Interval(lower=lower[cell], upper=upper[cell])
        one_each = evidence.counts["k_set_right"][cell] == evidence.counts["k_set_with_right"][cell]
        if one_each:  # then it is a share of rows
            interval, method = _careful(evidence.by, grounds, resampled, rows)
        else:
            interval, method = resampled if grounds.status == EvidenceStatus.SUFFICIENT else NO_INTERVAL, BOOTSTRAP
        name, meaning = ("label_miscoverage", LABELS_LACK)
        if evidence.of_predicted:
            name, meaning = ("labels_not_predicted", LABELS_NOT_SAID)
        found.append(estimate(name, value[cell], interval, naive[cell], grounds, meaning, method=method))
    return found


def _in_cell(rows: NDArray[np.void], cell: int) -> NDArray[np.void]:
    return np.asarray(rows[rows["cell"] == cell])


def _careful(
    by: AuditPlan, grounds: Grounds, resampled: Interval, rows: NDArray[np.void] | None
) -> tuple[Interval, str]:
    """Exact where every label had the same chance; else by resampling, or, of few errors, by bets (METHODS 9.3).

    `rows` are the distinct labelled ones that the number is about: with labels of different weights, and with
    clusters, its upper end is no lower than the one of `weight_classes`. None where they are not told apart.
    """
    delta = by.settings.delta
    one_weight = by.all_known
    all_or_nothing = by.binary
    if rows is not None:
        one_weight |= len(rows) > 0 and np.ptp(rows["weight"]) <= 1e-9 * rows["weight"].max()
        all_or_nothing = bool(np.isin(rows["loss"], (0.0, 1.0)).all())
    if one_weight and all_or_nothing and not by.clustered:
        return clopper_pearson(grounds.events, grounds.labelled, delta), EXACT
    if rows is not None and grounds.status == EvidenceStatus.EXACT_ONLY and not by.clustered:
        return fixed_bounds(rows["loss"], rows["weight"], rows["count"], delta), SEQUENCE
    if grounds.status != EvidenceStatus.SUFFICIENT:
        return NO_INTERVAL, BOOTSTRAP
    if rows is None:
        return resampled, BOOTSTRAP
    if by.clustered:
        end = clustered_end(rows["loss"], rows["weight"] * rows["count"], resampled, delta)
    else:
        end = upper_end(rows["loss"], rows["weight"], rows["count"], delta)
    return Interval(lower=resampled.lower, upper=max(resampled.upper, end)), BOOTSTRAP
