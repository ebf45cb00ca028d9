"""How often reviewers err, and what that does to a rate they found (METHODS 9.6).

A verdict is 1 where the reviewer says that the model was wrong, 0 where they say it was right.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from demur.audit.metrics.intervals import effective, normal_quantile
from demur.audit.metrics.promise_tests import SLACK, PromiseStatus, judge_mean
from demur.audit.metrics.weighted_rows import at, column_of, mean_of, row_weights
from demur.uncertainty.checks import Array, fraction, outcomes, real_number, same_length

SMALLEST_LIFT = 1e-12
"""With sensitivity + specificity - 1 no larger, the verdicts tell nothing of the truth but rounding."""


@dataclass(frozen=True, kw_only=True)
class ReviewerRates:
    """The share of wrong predictions that are called wrong, and of right ones that are called right. NaN where there is
    none."""

    sensitivity: float
    n_sensitivity: float
    """As many verdicts of equal weight would tell as much."""

    specificity: float
    n_specificity: float


@dataclass(frozen=True, kw_only=True)
class CorrectedRate:
    """A rate of errors, less those that the reviewers made. All NaN of verdicts that are no better than chance."""

    estimate: float
    """As it comes out, possibly below 0 or above 1."""

    clipped: float
    standard_error: float
    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class JudgedRate:
    """A rate of errors without those that the reviewers made, and whether it is above a target."""

    estimate: float
    standard_error: float
    lower: float
    upper: float
    p_broken: float
    p_kept: float
    status: PromiseStatus


def reviewer_rates(verdict: Any, truth: Any, weights: Any) -> ReviewerRates:
    """Return how often verdicts [n] hit the adjudicated truth [n], 0 or 1 each, read only where the weight is above 0.

    Assumes that the truth was found without knowing the verdict: two who err together cannot be told from two who are
    right.
    """
    w = row_weights(weights)
    said, is_so = (column_of(name, x) for name, x in (("verdict", verdict), ("truth", truth)))
    same_length(verdict=said, truth=is_so, weights=w)
    known = w > 0
    if not known.any():
        return ReviewerRates(sensitivity=np.nan, n_sensitivity=np.nan, specificity=np.nan, n_specificity=np.nan)
    wrong = outcomes("truth", at(is_so, known)) == 1
    hit = (outcomes("verdict", at(said, known)) == wrong).astype(np.float64)
    return ReviewerRates(
        sensitivity=_share(hit[wrong], w[known][wrong]),
        n_sensitivity=effective(w[known][wrong]),
        specificity=_share(hit[~wrong], w[known][~wrong]),
        n_specificity=effective(w[known][~wrong]),
    )


def rogan_gladen(
    rate: Any,
    n: Any,
    sensitivity: Any,
    n_sensitivity: Any,
    specificity: Any,
    n_specificity: Any,
    delta: Any = 0.05,
) -> CorrectedRate:
    """Return the rate of errors behind the `rate` of verdicts of 1, with a normal interval at 1 - delta.

    The numbers of rows behind the three shares are above 0, and may be effective ones. Assumes that reviewers err
    independently and as often as where their rates were found (Rogan & Gladen 1978). At a small risk the specificity
    is what matters: with 97% of it, a model that never errs is called wrong on 3%.
    """
    q, se, sp = (
        fraction(name, real_number(name, value))
        for name, value in (("rate", rate), ("sensitivity", sensitivity), ("specificity", specificity))
    )
    rows, n_se, n_sp = (
        real_number(name, value, above=0)
        for name, value in (("n", n), ("n_sensitivity", n_sensitivity), ("n_specificity", n_specificity))
    )
    z, lift = normal_quantile(delta), se + sp - 1
    if lift <= SMALLEST_LIFT:
        return CorrectedRate(estimate=np.nan, clipped=np.nan, standard_error=np.nan, lower=np.nan, upper=np.nan)
    estimate = (q - (1 - sp)) / lift
    variance = q * (1 - q) / rows + estimate**2 * se * (1 - se) / n_se + (1 - estimate) ** 2 * sp * (1 - sp) / n_sp
    error = float(np.sqrt(variance)) / lift
    return CorrectedRate(
        estimate=estimate,
        clipped=_clipped(estimate),
        standard_error=error,
        lower=_clipped(estimate - z * error),
        upper=_clipped(estimate + z * error),
    )


def corrected_rate(
    rate: Any,
    n: Any,
    sensitivity: Any,
    n_sensitivity: Any,
    specificity: Any,
    n_specificity: Any,
    target: Any,
    delta: Any = 0.05,
    min_rereviews: Any = 20,
) -> JudgedRate:
    """Return the rate of errors behind the `rate` of verdicts of 1, its interval, and the word about `target`.

    The interval is wide where few blind second looks (`n_sensitivity`, `n_specificity`) were taken, even if these show
    no error of a reviewer (Lang & Reiczigel 2014). Below `min_rereviews` of either kind only the estimate is given. All
    NaN if the verdicts are no better than chance. The numbers of rows are above 0 and may be effective ones.
    """
    q, se, sp, bar = (
        fraction(name, real_number(name, value))
        for name, value in (
            ("rate", rate),
            ("sensitivity", sensitivity),
            ("specificity", specificity),
            ("target", target),
        )
    )
    rows, n_se, n_sp = (
        real_number(name, value, above=0)
        for name, value in (("n", n), ("n_sensitivity", n_sensitivity), ("n_specificity", n_specificity))
    )
    z, least = normal_quantile(delta), real_number("min_rereviews", min_rereviews, least=0)
    seen_se, seen_sp = (n_se * se + 1) / (n_se + 2), (n_sp * sp + 1) / (n_sp + 2)  # as if one more of either kind
    lift = seen_se + seen_sp - 1
    nothing = JudgedRate(
        estimate=np.nan,
        standard_error=np.nan,
        lower=np.nan,
        upper=np.nan,
        p_broken=np.nan,
        p_kept=np.nan,
        status=PromiseStatus.UNDECIDED,
    )
    if min(se + sp - 1, lift) <= SMALLEST_LIFT:
        return nothing
    estimate = _clipped((q + sp - 1) / (se + sp - 1))
    if min(n_se, n_sp) < least * (1 - SLACK):
        return replace(nothing, estimate=estimate)
    seen_rows, seen_rate = rows + z**2, (rows * q + z**2 / 2) / (rows + z**2)
    behind = (seen_rate + seen_sp - 1) / lift
    v_se, v_sp = seen_se * (1 - seen_se) / (n_se + 2), seen_sp * (1 - seen_sp) / (n_sp + 2)
    variance = seen_rate * (1 - seen_rate) / seen_rows + behind**2 * v_se + (1 - behind) ** 2 * v_sp
    error = float(np.sqrt(variance)) / lift
    middle = behind + 2 * z**2 * (behind * v_se - (1 - behind) * v_sp)
    tested = judge_mean(middle, error, bar, delta)
    return JudgedRate(
        estimate=estimate,
        standard_error=error,
        lower=_clipped(middle - z * error),
        upper=_clipped(middle + z * error),
        p_broken=tested.p_broken,
        p_kept=tested.p_kept,
        status=tested.status,
    )


def _share(hit: Array, weights: Array) -> float:
    return mean_of(hit, weights) if len(hit) else np.nan


def _clipped(share: float) -> float:
    return min(1.0, max(0.0, share))
