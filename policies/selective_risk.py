"""Answer where labelled data promise that few answers are wrong, and say how few labels are too few."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from demur.policies.betting import betting_upper_bound, labels_without_loss, rejected_by_betting, weighted_bets
from demur.policies.covariate_shift import effective_number
from demur.policies.graded import GradedRows
from demur.policies.guaranteed_risk import searched_limits, widest_safe_limit
from demur.policies.learn_then_test import RejectedLimits, Testing, rejected_limits
from demur.policies.moved_inputs import LEAST_EFFECTIVE, MOST_UNLIKE
from demur.policies.promise import ANSWERS_LACK, ANSWERS_WRONG, MOVED_INPUTS, SAME_TRAFFIC, Promise
from demur.policies.risk_bound import binomial_upper_bound, labels_without_error
from demur.policies.threshold import Otherwise, PromisedScoreLimit, Threshold
from demur.uncertainty.checks import Array, InvalidInput, ascending, fraction, outcomes, real_number, unit_interval

FOR_TRAFFIC = "that for which the labelled rows were weighted"

ORDER_SEED = 0
"""Rows are bet on in a random order, which hangs on nothing that they say."""

LIMITS = (*(percent / 100 for percent in range(100)), 0.995, 0.999)
"""The limits that are tested unless others are configured. They may not depend on the labels."""


@dataclass(frozen=True, kw_only=True)
class SelectiveRisk:
    """`selective_risk`: the lowest limit found that promises a share of wrong answers.

    If later rows are drawn like the fitted ones, at most `max_risk` of the answers is wrong, except with probability
    `delta` over the draw of the fitted rows. That needs an order of the rows that was not itself fitted on them: a
    calibrator that has seen their labels moves them across limits of confidence, and the promise no longer holds.

    `sgr` bisects among the limits that can pass (`policies/guaranteed_risk.py`): of the score behind the confidence,
    where there is one, and else of the confidences. `ltt` and `ltt_fixed_sequence` test `limits` of confidence
    (`policies/learn_then_test.py`), the latter from the highest down until one fails: its highest must be one that
    enough rows reach. For these two the promise is proven whatever the risk does. For `sgr` it is proven where the risk
    grows as more is answered, and simulations of other shapes have found no break (METHODS 4.3).

    Where predictions are right to a degree, the share is the mean of what the answers lack of being right. Only `bound:
    betting` can promise that (`policies/betting.py`); for right or wrong it is valid, and a little less sharp.
    """

    max_risk: float
    delta: float = 0.05
    method: Literal["sgr", "ltt", "ltt_fixed_sequence"] = "sgr"
    limits: tuple[float, ...] = LIMITS
    """For the two that test; ascending."""

    bound: Literal["binomial", "betting"] = "binomial"
    """How the two that test come by their p-values."""

    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = True
    acts_on_sets: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        fraction("max_risk", real_number("max_risk", self.max_risk), open_low=True, open_high=True)
        fraction("delta", real_number("delta", self.delta), open_low=True, open_high=True)
        unit_interval("limits", ascending("limits", self.limits))
        if self.method not in ("sgr", "ltt", "ltt_fixed_sequence"):
            raise InvalidInput(f"method is {self.method!r}; it is 'sgr', 'ltt' or 'ltt_fixed_sequence'")
        if self.bound not in ("binomial", "betting"):
            raise InvalidInput(f"bound is {self.bound!r}; it is 'binomial' or 'betting'")
        if self.bets and self.ranks:
            raise InvalidInput("bound: betting tests given limits; write `method: ltt` or `ltt_fixed_sequence` with it")

    @property
    def ranks(self) -> bool:
        """Whether any order of the rows will do, and not only limits of confidence."""
        return self.method == "sgr"

    @property
    def bets(self) -> bool:
        """Whether losses may lie between 0 and 1."""
        return self.bound == "betting"

    def fit(self, rows: GradedRows) -> Threshold | PromisedScoreLimit:
        if rows.weights is not None and not self.bets:
            raise InvalidInput("selective_risk: rows with weights take `method: ltt` and `bound: betting`")
        if self.bets:
            unit_interval("quality", rows.quality.ravel())
            rows = rows.rows(np.random.default_rng(ORDER_SEED).permutation(len(rows)))
        else:
            outcomes("quality", rows.quality, ndim=2)
        score, own = rows.score, self.ranks and rows.by_score
        rows = rows.ranked() if own else rows
        limit, level = self._search(rows)
        if too_little := self._too_little(rows, limit):
            limit = np.inf
        promise = self._promise(rows, limit, level)
        if np.isinf(limit):
            meaning = too_little or self._missing(rows)
            return Threshold(limit=limit, meaning=meaning, otherwise=self.otherwise, promise=promise)
        meaning = (
            f"the limit for at most {self._aim(rows)}, except with probability"
            f" {100 * self.delta:g}%, on traffic like {'the calibration data' if rows.weights is None else FOR_TRAFFIC}"
        )
        if own:
            return PromisedScoreLimit(
                score=score, limit=-limit, meaning=meaning, otherwise=self.otherwise, promise=promise
            )
        return Threshold(limit=limit, meaning=meaning, otherwise=self.otherwise, promise=promise)

    def labels_needed(self) -> int:
        """Return the smallest number of labels that is enough if none shows an error and no confidences are tied.

        For `ltt_fixed_sequence` that many must reach its highest limit.
        """
        if not self.ranks:
            level = self.delta / len(self.limits) if self.method == "ltt" else self.delta
            return (labels_without_loss if self.bets else labels_without_error)(self.max_risk, level)
        needed = labels_without_error(self.max_risk, self.delta)
        return needed + (binomial_upper_bound(0, needed, self.delta) >= self.max_risk)  # it must be below

    def _search(self, rows: GradedRows) -> tuple[float, float]:
        """The limit, +inf if none is safe, and the error level at which it was tested."""
        if self.method == "sgr":
            if rows.models > 1:
                raise InvalidInput(
                    "selective_risk: sgr ranks the confidences of one model, and a cascade has several; use"
                    " `method: ltt`, which tests given limits"
                )
            answerable = np.isfinite(rows.surest)
            confidence, wrong = rows.surest[answerable], 1 - rows.quality[answerable, 0]
            searched = searched_limits(len(confidence), self.max_risk, self.delta)
            found = None if searched is None else widest_safe_limit(confidence, wrong, self.max_risk, searched)
            if searched is None or found is None:
                return np.inf, self.delta
            return found.threshold, searched.level
        limits = np.asarray(self.limits, dtype=np.float64)[::-1]  # from the highest down: the strictest comes first
        tested = self._tested(rows, limits)
        limit = float(limits[tested.rejected[-1]]) if tested.rejected else np.inf
        return limit, self.delta / len(limits) if self.method == "ltt" else self.delta

    def _tested(self, rows: GradedRows, limits: Array) -> RejectedLimits:
        method: Testing = "bonferroni" if self.method == "ltt" else "fixed_sequence"
        if self.bets:
            bets = (self._bets_at(rows, limit) for limit in limits.tolist())
            return rejected_by_betting(bets, len(limits), self.max_risk, delta=self.delta, method=method)
        n_answered, lost = rows.at(limits)
        return rejected_limits(np.rint(lost), n_answered, self.max_risk, delta=self.delta, method=method)

    def _bets_at(self, rows: GradedRows, limit: float) -> Array:
        """What is bet on at a limit; nothing where no answered row counts."""
        losses, weights = rows.losses_at(limit), rows.weights_at(limit)
        if weights is None:
            return losses
        return weighted_bets(losses, weights, rows.max_weight, self.max_risk) if weights.any() else np.empty(0)

    def _too_little(self, rows: GradedRows, limit: float) -> str:
        """Why rows with weights tell too little of the traffic that they stand for: all, or those answered."""
        if rows.weights is None:
            return ""
        if rows.unlike > MOST_UNLIKE:
            return (
                f"{rows.unlike:.0%} of the new traffic is like hardly any labelled row, and {MOST_UNLIKE:.0%} is the"
                " most; label rows of the new traffic"
            )
        if rows.wrong_weights:
            return rows.wrong_weights
        answered = rows.weights_at(limit) if np.isfinite(limit) else None
        for which, weights in (("labelled rows", rows.weights), ("labelled rows that would be answered", answered)):
            if weights is not None and (known := effective_number(weights)) < LEAST_EFFECTIVE:
                return (
                    f"{len(weights):,} {which} tell as much of the new traffic as {known:.0f} of its own, and"
                    f" {LEAST_EFFECTIVE:g} are the least; label rows of the new traffic"
                )
        return ""

    def _promise(self, rows: GradedRows, limit: float, level: float) -> Promise:
        feasible = bool(np.isfinite(limit))
        errors: int | None = None
        bound: float | None = None
        if feasible:
            losses = rows.losses_at(limit)
            errors = None if rows.in_degrees else round(float(losses.sum()))
            if rows.weights is None:
                bound = (
                    betting_upper_bound(losses, level)
                    if self.bets or errors is None
                    else binomial_upper_bound(errors, len(losses), level)
                )
        return Promise(
            share=ANSWERS_LACK if rows.in_degrees else ANSWERS_WRONG,
            target=self.max_risk,
            delta=self.delta,
            n=len(rows),
            errors=errors,
            bound=bound,
            feasible=feasible,
            assumption=SAME_TRAFFIC if rows.weights is None else MOVED_INPUTS,
        )

    def _aim(self, rows: GradedRows) -> str:
        return f"{self.max_risk:.2%} {'of an answer wrong on average' if rows.in_degrees else 'wrong answers'}"

    def _missing(self, rows: GradedRows) -> str:
        n, needed = len(rows), self.labels_needed()
        promise = f"at most {self._aim(rows)} at {100 * (1 - self.delta):g}% confidence"
        if self.method == "ltt_fixed_sequence":
            highest = self.limits[-1]
            reached = int((rows.surest >= highest).sum())
            if reached < needed:
                return (
                    f"only {reached:,} of {n:,} labels reach {highest:g}, the limit to be tried first;"
                    f" {needed:,} without an error there would allow to promise {promise}"
                )
        elif n < needed:
            return (
                f"with {n:,} labels no limit can promise {promise}; {needed:,} labels without an error would allow it"
            )
        if rows.weights is not None:
            known = effective_number(rows.weights)
            return (
                f"no limit tried on {n:,} labels, which tell as much of the new traffic as {known:,.0f} of its own, can"
                f" promise {promise}; label rows of the new traffic"
            )
        n_errors = int((rows.quality[:, 0] < 1).sum())
        return (
            f"no limit tried on {n:,} labels, {n_errors:,} of them wrong, can promise {promise};"
            " fewer errors among the most confident, or more labels, would allow it"
        )
