"""Whether there are labels enough to say anything (METHODS 9.3)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from demur.audit.metrics.intervals import effective
from demur.audit.metrics.weighted_rows import labelled_values
from demur.uncertainty.checks import outcomes, real_number, whole_number

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
