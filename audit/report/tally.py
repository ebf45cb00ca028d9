"""Sums over the rows of a ledger, from which every number of a report is made.

All of them add up over parts of the traffic, so the same audit runs on one machine or on many. Those that intervals
need are kept by unit of the bootstrap [g, ...]: a resample is a weighted sum over units, and no row is ever copied.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.ledger import ANSWER, Ledger
from demur.audit.report import sample, weighted
from demur.audit.report.cells import as_sets, cell_sums, distinct
from demur.audit.report.plan import AuditPlan, LabelWeights, bins_of, cells_of, weigh
from demur.audit.report.sample import LedgerSample, plain_sample, sample_for_tau
from demur.audit.report.sums import added_up
from demur.audit.report.survey import doubts
from demur.audit.report.weighted import WeightedSums, weighted_sums
from demur.uncertainty.checks import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedLabels:
    """What a tally has of prediction sets, of the predicted labels instead."""

    counts: Array
    by_unit: Array
    set_labels: NDArray[np.void]
    sets_with_labels: NDArray[np.void]


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    counts: Array
    """[cells, COUNTS]."""

    by_unit: Array
    """[g, cells, RESAMPLED]."""

    weighted: WeightedSums
    naive: WeightedSums
    """The rows with any outcome, each counted once."""

    assisted: Array
    """[2, 3]: of all rows of the frame, and of the answered ones, sums of phi, of phi^2, and their number (AIPW)."""

    expected: Array
    """[4]: answered rows, those of them with a known confidence c, and of these the sums of 1 - c and of c (1 - c)."""

    answered_labels: NDArray[np.void]
    """Distinct (cell, loss, weight) of labelled answered rows, with their `count`."""

    set_labels: NDArray[np.void]
    """The same of labelled prediction sets, whose loss is the share of what is right that they lack."""

    sets_with_labels: NDArray[np.void]
    """Those of them for which a label holds."""

    plain: LedgerSample
    tau: LedgerSample
    predicted: PredictedLabels | None = None
    """None where nothing is promised about predicted labels."""

    def of_predicted(self) -> "Tally":
        """The tally with the predicted labels in the place of prediction sets."""
        return self if self.predicted is None else replace(self, **vars(self.predicted), predicted=None)


def tally(ledger: Ledger, by: AuditPlan) -> Tally:
    """Sum up one ledger, or one part of what a plan was made for."""
    weighed = weigh(ledger, by)
    loss = np.where(ledger.known, 1 - ledger.quality, 0.0)
    cells = [cells_of(ledger, dimension, by) for dimension in by.dimensions]
    counts, by_unit, answered, sets, with_labels = cell_sums(ledger, by, weighed, loss, cells)
    alone = np.zeros(len(ledger), dtype=np.intp)
    places = {name: bins_of(by.values[name], u) for name, u in doubts(ledger).items() if name in by.values}
    return Tally(
        counts=counts,
        by_unit=by_unit,
        weighted=weighted_sums(
            ledger, by, weighed.weights, weighed.units, weighed.n_units, loss, weighed.inside, places
        ),
        naive=weighted_sums(ledger, by, ledger.known.astype(np.float64), alone, 1, loss, ledger.known, places),
        assisted=_assisted(ledger, by, weighed, loss),
        expected=_expected(ledger),
        answered_labels=answered,
        set_labels=sets,
        sets_with_labels=with_labels,
        plain=plain_sample(ledger, by, weighed),
        tau=sample_for_tau(ledger, by, weighed),
        predicted=_predicted(ledger, by, weighed, loss, cells) if by.about_predicted else None,
    )


def _predicted(
    ledger: Ledger, by: AuditPlan, weighed: LabelWeights, loss: Array, cells: Sequence[NDArray[np.intp]]
) -> PredictedLabels:
    counts, by_unit, _, sets, with_labels = cell_sums(as_sets(ledger), by, weighed, loss, cells)
    return PredictedLabels(counts=counts, by_unit=by_unit, set_labels=sets, sets_with_labels=with_labels)


def together(parts: Sequence[Tally]) -> Tally:
    """Return the tally of all of them."""
    predicted = [p.predicted for p in parts if p.predicted]
    return Tally(
        counts=added_up([p.counts for p in parts]),
        by_unit=added_up([p.by_unit for p in parts]),
        weighted=weighted.joined([p.weighted for p in parts]),
        naive=weighted.joined([p.naive for p in parts]),
        assisted=added_up([p.assisted for p in parts]),
        expected=added_up([p.expected for p in parts]),
        answered_labels=distinct(np.concatenate([p.answered_labels for p in parts])),
        set_labels=distinct(np.concatenate([p.set_labels for p in parts])),
        sets_with_labels=distinct(np.concatenate([p.sets_with_labels for p in parts])),
        plain=sample.joined([p.plain for p in parts]),
        tau=sample.joined([p.tau for p in parts]),
        predicted=PredictedLabels(
            counts=added_up([p.counts for p in predicted]),
            by_unit=added_up([p.by_unit for p in predicted]),
            set_labels=distinct(np.concatenate([p.set_labels for p in predicted])),
            sets_with_labels=distinct(np.concatenate([p.sets_with_labels for p in predicted])),
        )
        if predicted
        else None,
    )


def _expected(ledger: Ledger) -> Array:
    answered = ledger.actions.codes == ANSWER
    c = ledger.confidence[answered & ~np.isnan(ledger.confidence)]
    return np.array([answered.sum(), len(c), (1 - c).sum(), (c * (1 - c)).sum()], dtype=np.float64)


def _assisted(ledger: Ledger, by: AuditPlan, weighed: LabelWeights, loss: Array) -> Array:
    """The predicted loss is 1 - confidence; where that is unknown, a half."""
    f = 1 - np.where(np.isnan(ledger.confidence), 0.5, ledger.confidence)
    phi = f + weighed.weights * np.where(weighed.weights > 0, loss - f, 0.0)
    out = np.zeros((2, 3))
    inside = weighed.inside & ledger.known if by.all_known else weighed.inside  # no label stands for what is not known
    for at, rows in enumerate((inside, inside & (ledger.actions.codes == ANSWER))):
        out[at] = phi[rows].sum(), np.square(phi[rows]).sum(), rows.sum()
    return out
