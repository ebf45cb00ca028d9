"""How often reviewers err, from blind second looks that were decided, and what that does to what they found (METHODS
10.9)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.resampling import Interval
from demur.audit.metrics.reviewers import SMALLEST_LIFT, ReviewerRates, reviewer_rates
from demur.review.disagreement import DecidedCheck

FEWEST_LOOKS = 20
"""Second looks at answers that were wrong, and as many at answers that were right, before anything is corrected."""


@dataclass(frozen=True, kw_only=True)
class ReviewerError:
    """How often the reviewers of a model call a wrong answer wrong, and a right one right."""

    rates: ReviewerRates

    @property
    def known(self) -> bool:
        """Whether there are enough second looks to judge by; False for NaN."""
        return min(self.rates.n_sensitivity, self.rates.n_specificity) >= FEWEST_LOOKS

    @property
    def enough(self) -> bool:
        """Whether a rate may be corrected by it: enough second looks, and they tell more than chance."""
        return self.known and self.rates.sensitivity + self.rates.specificity - 1 > SMALLEST_LIFT

    @property
    def words(self) -> str:
        """What is known of them, or why too little is."""
        rates = self.rates
        wrong, right = (0 if n != n else round(n) for n in (rates.n_sensitivity, rates.n_specificity))
        looks = f"{wrong:,} wrong and {right:,} right answers"
        if min(wrong, right) < FEWEST_LOOKS:
            return (
                f"what reviewers say is not corrected for their errors: blind second looks were decided at {looks}, and"
                f" {FEWEST_LOOKS} of each are needed (`review.re_review`)"
            )
        if not self.enough:
            return f"what reviewers say of wrong answers tells no more than chance, by blind second looks at {looks}"
        return (
            f"reviewers call {100 * rates.sensitivity:.1f}% of the wrong answers wrong and"
            f" {100 * rates.specificity:.1f}% of the right ones right, by blind second looks at {looks}"
        )


def rates_of(checks: Sequence[DecidedCheck]) -> ReviewerRates:
    """Return how often first answers are true; each check counts alike, as all are drawn with one probability."""
    n = [check.n for check in checks]
    if not sum(n):
        return ReviewerRates(sensitivity=nan, n_sensitivity=nan, specificity=nan, n_specificity=nan)
    said = np.repeat([check.first_overturns for check in checks], n)
    truth = np.repeat([check.truth_overturns for check in checks], n)
    return reviewer_rates(said, truth, np.ones(len(truth)))


def reviewer_error(checks: Sequence[DecidedCheck]) -> ReviewerError:
    """Return how often reviewers err on answers. Second looks at held cases say nothing of that, however many there
    are: people may judge those better or worse, and a verdict would go by it."""
    return ReviewerError(rates=rates_of([check for check in checks if check.spot_check]))


def share_called_wrong(error: ReviewerError | None, risk: float) -> float | None:
    """Return which share of the answers reviewers call wrong where `risk` of them are, if they err as often as in the
    second looks so far. None where too little is known of them, or they would call all or none wrong."""
    if error is None or not error.enough:
        return None
    seen = risk * error.rates.sensitivity + (1 - risk) * (1 - error.rates.specificity)
    return seen if 0 < seen < 1 else None


def corrected_interval(seen: Interval, error: ReviewerError, delta: float) -> Interval | None:
    """Return an interval of the true share of wrong answers, from one of the share that reviewers call wrong.

    It holds except with the error level of `seen` and `delta` together: both rates of the reviewers lie in their exact
    intervals at delta / 2 each, and the ends are those of the worst pair. None where too little is known.
    """
    if not error.enough:
        return None
    rates = error.rates
    of_wrong, of_right = (
        clopper_pearson(round(rate * n), round(n), delta / 2)
        for rate, n in ((rates.sensitivity, rates.n_sensitivity), (rates.specificity, rates.n_specificity))
    )
    if of_wrong.lower + of_right.lower - 1 <= SMALLEST_LIFT:
        return Interval(lower=0.0, upper=1.0)
    return Interval(
        lower=_behind(seen.lower, of_wrong.upper, of_right.lower),
        upper=_behind(seen.upper, of_wrong.lower, of_right.upper),
    )


def _behind(share: float, sensitivity: float, specificity: float) -> float:
    """The share of wrong answers of which reviewers call so many wrong. It rises with the share and, as long as that is
    at most the sensitivity, with the specificity; and falls with the sensitivity."""
    return min(1.0, max(0.0, (share + specificity - 1) / (sensitivity + specificity - 1)))
