"""The verdict about wrong answers without the errors of reviewers, and what they said beside it (METHODS 10.9)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.intervals import normal_quantile
from demur.audit.metrics.reviewers import JudgedRate, corrected_rate
from demur.audit.report.grounds import BOOTSTRAP, Estimate
from demur.audit.report.promise_evidence import PartEvidence
from demur.audit.reviewer_error import FEWEST_LOOKS, ReviewerError, corrected_interval
from demur.traffic.outcomes import REVIEW

NO_LOOKS = (
    "what reviewers say is not corrected for their errors: of blind second looks nothing is known here; they are in the"
    " database, and not in an export"
)


@dataclass(frozen=True, kw_only=True)
class ReviewerCorrection:
    """Whether the share of wrong answers can be corrected for the errors of reviewers, and why, or why not."""

    error: ReviewerError | None
    """None: nothing is corrected."""

    words: str
    """Empty where there is nothing to say: no label is that of a reviewer."""


def correction_of(looks: ReviewerError | None, sources: Mapping[str, int]) -> ReviewerCorrection:
    """Return what to make of second looks in an audit whose outcomes come from these sources.

    Only what reviewers said is corrected: other outcomes have other errors, or none.
    """
    said, total = sources.get(REVIEW, 0), sum(sources.values())
    if not said:
        return ReviewerCorrection(error=None, words="")
    if said < total:
        words = (
            f"what reviewers say is not corrected for their errors: {total - said:,} of {total:,} outcomes come from"
            " others"
        )
        return ReviewerCorrection(error=None, words=words)
    if looks is None:
        return ReviewerCorrection(error=None, words=NO_LOOKS)
    return ReviewerCorrection(error=looks if looks.known else None, words=looks.words)


def corrected_test(
    correction: ReviewerCorrection, seen: PartEvidence | None, estimate: Estimate, target: float, delta: float
) -> JudgedRate | None:
    """Return the corrected rate and its tests, all NaN where what reviewers say tells no more than chance.

    None where nothing is corrected, too few labels say anything, or answers can be wrong in part. With few labels
    `p_broken` is 1 unless the exact intervals of what was found and of the reviewers' rates lie above the target.
    """
    if correction.error is None or seen is None or not seen.whole or not estimate.grounds.effective > 0:
        return None
    rates, n = correction.error.rates, estimate.grounds.effective
    if seen.method == BOOTSTRAP and 0 < seen.value < 1:  # what depends on each other tells less than it weighs
        error = (seen.interval.upper - seen.interval.lower) / (2 * normal_quantile(delta))
        n = min(n, seen.value * (1 - seen.value) / error**2) if error > 0 else n
    made = corrected_rate(
        min(1.0, max(0.0, seen.value)),
        n,
        rates.sensitivity,
        rates.n_sensitivity,
        rates.specificity,
        rates.n_specificity,
        min(1.0, max(0.0, target)),
        delta,
        FEWEST_LOOKS,
    )
    if estimate.grounds.status == EvidenceStatus.SUFFICIENT or np.isnan(made.p_broken):
        return made
    careful = corrected_interval(seen.interval, correction.error, delta)
    return made if careful is not None and careful.lower > target else replace(made, p_broken=1.0)
