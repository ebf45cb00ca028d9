"""Two exact tests of one promise in one part of the traffic: is it broken, and is it kept (METHODS 10.6)?

A promise of a fit speaks of this fit. A promise on average speaks of all fits: this one may miss more than the target
and the promise be true, so the spread of the fit is inside the test.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaln, ndtr

from demur.policies.conformal import error_rate
from demur.uncertainty.checks import InvalidInput, fraction, one_of, real_number, snapped_ceil, whole_number

SLACK = 1e-12
OVER = ("fit", "average")


class PromiseStatus(StrEnum):
    BROKEN = "broken"
    KEPT = "kept"
    UNDECIDED = "not_enough_evidence"


@dataclass(frozen=True, kw_only=True)
class FitSpread:
    """How much fits of one size miss that keep their promise on average."""

    rank: int
    mean: float
    upper: float
    """Of such fits, a share 1 - delta misses at most this much."""


@dataclass(frozen=True, kw_only=True)
class PromiseTest:
    p_broken: float
    """How surprising so many misses are if the promise holds. NaN where nothing was seen."""

    p_kept: float
    """How surprising so few misses are if this fit misses the target or more."""

    status: PromiseStatus
    within_spread: bool
    """Undecided, though this fit alone would be called above the target: the spread of fits may explain it."""


@dataclass(frozen=True, kw_only=True)
class CountedTest(PromiseTest):
    rate: float


def fit_spread(fit_n: Any, alpha: Any, delta: Any = 0.05, rank: Any = None) -> FitSpread:
    """Return how much a conformal set misses in a fit of `fit_n` rows: Beta(fit_n + 1 - rank, rank) (Vovk 2012).

    `rank` is that of the fitted limit, from 1 to fit_n + 1 (full sets, which miss nothing); by default the conformal
    one, ceil((fit_n + 1)(1 - alpha)).
    """
    error_rate(alpha)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    n, k = _fit("fit_n", fit_n, "rank", rank, alpha)
    upper = 0.0 if k > n else float(betainccinv(n + 1 - k, k, delta))
    return FitSpread(rank=k, mean=(n + 1 - k) / (n + 1), upper=upper)


def judge_count(
    misses: Any,
    labels: Any,
    target: Any,
    delta: Any = 0.05,
    promise: Any = "fit",
    fit_n: Any = None,
    fit_rank: Any = None,
) -> CountedTest:
    """Test "at most `target` is missed" on `labels` labels of one common probability, of which `misses` are misses.

    `promise` "fit": a statement about this fit (SGR, learn then test, training-conditional sets). "average": about all
    fits of `fit_n` rows with the limit at `fit_rank` (split, class- and group-conditional sets). Broken and kept are
    each called at delta / 2. Broken is wrong with at most that probability if the promise holds; kept always speaks of
    this fit.
    """
    wrong, total = whole_number("misses", misses), whole_number("labels", labels)
    error_rate(target)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    one_of("promise", promise, OVER)
    if wrong > total:
        raise InvalidInput(f"misses is {wrong}, above labels = {total}")
    if fit_n is None and (promise == "average" or fit_rank is not None):
        raise InvalidInput("fit_n is missing: a promise on average needs the number of rows of the fit")
    fit = None if fit_n is None else _fit("fit_n", fit_n, "fit_rank", fit_rank, target)
    if total == 0:
        nothing = PromiseStatus.UNDECIDED
        return CountedTest(rate=np.nan, p_broken=np.nan, p_kept=np.nan, status=nothing, within_spread=False)
    alone = 1.0 if wrong == 0 else float(betainc(wrong, total - wrong + 1, target))
    p_kept = 1.0 if wrong == total else float(betaincc(wrong + 1, total - wrong, target))
    p_broken = alone if promise == "fit" or fit is None else _over_fits(wrong, total, *fit)
    tested = _tested(p_broken, p_kept, alone, delta)
    return CountedTest(rate=wrong / total, **vars(tested))


def judge_mean(
    estimate: Any,
    standard_error: Any,
    target: Any,
    delta: Any = 0.05,
    fit_n: Any = None,
    loss_variance: Any = None,
) -> PromiseTest:
    """Test a mean loss against `target` by the normal distribution: for weighted audits and losses other than 0 and 1.

    With `fit_n`, the rows that a limit was chosen on, the promise is one on average, and the sampling error of these
    rows, loss_variance / fit_n, is added; `loss_variance` is by default that of a 0/1 loss, target (1 - target). Use it
    only where the evidence is sufficient. A standard error of 0 is no evidence. For a share of labels the estimate is
    that of missed - alpha held, and the target 0.
    """
    mean, bar = real_number("estimate", estimate), real_number("target", target)
    error = real_number("standard_error", standard_error, least=0)
    fraction("delta", real_number("delta", delta), open_low=True, open_high=True)
    if fit_n is None and loss_variance is not None:
        raise InvalidInput("loss_variance is given without fit_n, the number of rows of the fit")
    spread = 0.0
    if fit_n is not None:
        rows = whole_number("fit_n", fit_n, least=1)
        if loss_variance is None:
            fraction("target", bar)
            spread = bar * (1 - bar) / rows
        else:
            spread = real_number("loss_variance", loss_variance, least=0) / rows
    if error == 0:
        return PromiseTest(p_broken=np.nan, p_kept=np.nan, status=PromiseStatus.UNDECIDED, within_spread=False)
    over = mean - bar
    alone, p_kept = float(ndtr(-over / error)), float(ndtr(over / error))
    return _tested(float(ndtr(-over / np.hypot(error, np.sqrt(spread)))), p_kept, alone, delta)


def _tested(p_broken: float, p_kept: float, alone: float, delta: float) -> PromiseTest:
    """The word for two p-values; `alone` is that of broken if only this fit counted."""
    level = delta / 2 * (1 + SLACK)
    status = PromiseStatus.UNDECIDED
    if p_broken <= level:
        status = PromiseStatus.BROKEN
    elif p_kept <= level:
        status = PromiseStatus.KEPT
    within = status == PromiseStatus.UNDECIDED and alone <= level
    return PromiseTest(p_broken=p_broken, p_kept=p_kept, status=status, within_spread=within)


def _fit(name: str, fit_n: Any, rank_name: str, rank: Any, alpha: float) -> tuple[int, int]:
    n = whole_number(name, fit_n, least=1)
    if rank is None:
        return n, min(n + 1, max(1, snapped_ceil((n + 1) * (1 - alpha))))
    return n, whole_number(rank_name, rank, least=1, most=n + 1)


def _over_fits(misses: int, labels: int, fit_n: int, rank: int) -> float:
    """P(X >= misses), X beta-binomial: the rate of a fit is Beta(fit_n + 1 - rank, rank). Full sets miss nothing."""
    if misses == 0 or rank > fit_n:
        return float(misses == 0)
    a, b = fit_n + 1 - rank, rank
    counts = np.arange(misses, labels + 1.0)
    logs = betaln(counts + a, labels - counts + b) - betaln(a, b)
    logs -= np.log(labels + 1) + betaln(labels - counts + 1, counts + 1)
    return float(min(1.0, np.exp(logs).sum()))
