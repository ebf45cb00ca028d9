"""Estimates of the risk without labels. They assume that the calibration still holds, and are no verdict."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.audit.metrics.multiplicity import holm
from demur.uncertainty.checks import outcomes, same_length, unit_interval


@dataclass(frozen=True, kw_only=True)
class ExpectedRisk:
    """The share of answers that calibrated confidence expects to be wrong. NaN where nothing was answered."""

    estimate: float
    standard_error: float
    """The chance of the outcomes alone: that the calibration may be wrong is not in it."""

    coverage: float
    n_answered: int
    warning: bool | None
    """Whether the traffic has drifted, so that the estimate is not to be relied on; None where no test was given."""


@dataclass(frozen=True, kw_only=True)
class ThresholdedRisk:
    threshold: float
    estimate: float


def expected_risk(confidence: Any, answered: Any = None, drift_p_values: Any = None, delta: Any = 0.05) -> ExpectedRisk:
    """Return the mean of 1 - c over the answered records (Guillory et al. 2021).

    `confidence` [n] is calibrated, `answered` [n] is 0/1, by default all. `drift_p_values` are those of the tests of
    the traffic; the warning is Holm's at `delta`.
    """
    c = unit_interval("confidence", confidence)
    inside = np.ones(len(c), dtype=bool) if answered is None else outcomes("answered", answered) == 1
    same_length(confidence=c, answered=inside)
    warning = None if drift_p_values is None else bool(holm(drift_p_values, delta).rejected)
    own, n = c[inside], int(inside.sum())
    return ExpectedRisk(
        estimate=float(np.mean(1 - own)) if n else np.nan,
        standard_error=float(np.sqrt((own * (1 - own)).sum()) / n) if n else np.nan,
        coverage=n / len(c),
        n_answered=n,
        warning=warning,
    )


def average_thresholded_confidence(
    reference_confidence: Any, reference_correct: Any, confidence: Any
) -> ThresholdedRisk:
    """Return the share of `confidence` [n] below a threshold that is chosen so that, among the reference [m], as many
    are below it as are wrong (ATC, Garg et al. 2022). +inf where all of the reference are wrong."""
    before, right = (
        unit_interval("reference_confidence", reference_confidence),
        outcomes("reference_correct", reference_correct),
    )
    same_length(reference_confidence=before, reference_correct=right)
    c = unit_interval("confidence", confidence)
    wrong = len(right) - int(right.sum())
    threshold = float(np.sort(before)[wrong]) if wrong < len(before) else np.inf
    return ThresholdedRisk(threshold=threshold, estimate=float((c < threshold).mean()))
