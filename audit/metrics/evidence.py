"""Whether there are labels enough to say anything (METHODS 9.3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from demur.audit.metrics.intervals import effective
from demur.audit.metrics.weighted_rows import at, column_of, label_draw, labelled_values, row_weights
from demur.uncertainty.checks import outcomes, real_number, same_length, whole_number

MIN_LABELLED = 30


class EvidenceStatus(StrEnum):
    NONE = "none"  # no label
    INSUFFICIENT = "insufficient"  # too few labels, or so unequal ones that they count as too few
    EXACT_ONLY = "exact_only"  # too few events, or too few others, for a normal or a bootstrap interval
    SUFFICIENT = "sufficient"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """With `none` or `insufficient` a finding says "insufficient evidence", never "kept"."""

    n_labelled: int
    n_effective: float
    """NaN without a label."""

    n_events: int
    n_nonevents: int
    status: EvidenceStatus


@dataclass(frozen=True, kw_only=True)
class OutcomeLabels:
    """Labels of one outcome."""

    n: int
    n_drawn: int
    """Of these, the ones whose record had a probability below 1 to get a label."""

    n_effective: float
    """Of the weights; NaN without a label."""


@dataclass(frozen=True, kw_only=True)
class RankingEvidence:
    """Whether a metric that ranks errors may have an interval."""

    errors: OutcomeLabels
    right: OutcomeLabels
    show: bool


def ranking_evidence(outcome: Any, weights: Any, probability: Any, min_events: Any = 5) -> RankingEvidence:
    """Return whether enough errors and right answers carry a ranking metric. `outcome` [n] is 1 for an error.

    A label is *drawn* if its record had a `probability` below 1. Records that were all labelled, because they were
    held, say nothing of the answered ones: 202 errors of which two were drawn are two errors. If every record had the
    probability 1, all labels count (METHODS 10.13).
    """
    least = whole_number("min_events", min_events)
    w, rows = row_weights(weights), column_of("outcome", outcome)
    known = w > 0
    _, chance = label_draw(known.astype(np.float64), probability)
    same_length(outcome=rows, weights=w)
    wrong = np.zeros(len(w), dtype=bool)
    if known.any():
        wrong[known] = outcomes("outcome", at(rows, known)) == 1
    drawn = known & (chance < 1)
    errors, right = (
        OutcomeLabels(n=int(kind.sum()), n_drawn=int((kind & drawn).sum()), n_effective=effective(w[kind]))
        for kind in (known & wrong, known & ~wrong)
    )
    complete = bool((chance == 1).all())
    counts = (errors.n, right.n) if complete else (errors.n_drawn, right.n_drawn)
    return RankingEvidence(errors=errors, right=right, show=min(counts) >= least)


def evidence(
    outcome: Any, weights: Any, min_labelled: Any = MIN_LABELLED, min_effective: Any = 20, min_events: Any = 5
) -> Evidence:
    """Return what the labelled rows can carry. `outcome` [n] is 1 for an event, such as an error, else 0."""
    least_labelled = whole_number("min_labelled", min_labelled)
    least_effective = real_number("min_effective", min_effective, least=0)
    least_events = whole_number("min_events", min_events)
    values, w = labelled_values("outcome", outcome, weights)
    n, events = len(values), int(outcomes("outcome", values).sum()) if len(values) else 0
    n_effective = effective(w)
    if n == 0:
        status = EvidenceStatus.NONE
    elif n < least_labelled or n_effective < least_effective:
        status = EvidenceStatus.INSUFFICIENT
    elif min(events, n - events) < least_events:
        status = EvidenceStatus.EXACT_ONLY
    else:
        status = EvidenceStatus.SUFFICIENT
    return Evidence(n_labelled=n, n_effective=n_effective, n_events=events, n_nonevents=n - events, status=status)
