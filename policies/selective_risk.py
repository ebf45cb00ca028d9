"""Answer where labelled data promise that few answers are wrong, and say how few labels are too few."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from demur.policies.graded import GradedRows
from demur.policies.guaranteed_risk import bisection_steps, guaranteed_risk
from demur.policies.learn_then_test import rejected_limits
from demur.policies.promise import SAME_TRAFFIC, Promise
from demur.policies.risk_bound import binomial_upper_bound, labels_without_error
from demur.policies.threshold import Otherwise, PromisedScoreLimit, Threshold
from demur.uncertainty.checks import InvalidInput, ascending, fraction, outcomes, real_number, unit_interval

LIMITS = (*(percent / 100 for percent in range(100)), 0.995, 0.999)
"""The limits that are tested unless others are configured. They may not depend on the labels."""


@dataclass(frozen=True, kw_only=True)
class SelectiveRisk:
    """`selective_risk`: the lowest limit found that promises a share of wrong answers.

    If later rows are drawn like the fitted ones, at most `max_risk` of the answers is wrong, except with probability
    `delta` over the draw of the fitted rows. That needs an order of the rows that was not itself fitted on them: a
    calibrator that has seen their labels moves them across limits of confidence, and the promise no longer holds.

    `sgr` bisects (`policies/guaranteed_risk.py`): the score behind the confidence, where there is one, and else the
    confidences. `ltt` and `ltt_fixed_sequence` test `limits` of confidence (`policies/learn_then_test.py`), the latter
    from the highest down until one fails: its highest must be one that enough rows reach.
    """

    max_risk: float
    delta: float = 0.05
    method: Literal["sgr", "ltt", "ltt_fixed_sequence"] = "sgr"
    limits: tuple[float, ...] = LIMITS
    """For the two that test; ascending."""

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

    @property
    def ranks(self) -> bool:
        """Whether any order of the rows will do, and not only limits of confidence."""
        return self.method == "sgr"

    def fit(self, rows: GradedRows) -> Threshold | PromisedScoreLimit:
        outcomes("quality", rows.quality, ndim=2)
        score, own = rows.score, self.ranks and rows.by_score
        rows = rows.ranked() if own else rows
        limit, delta = self._search(rows)
        promise = self._promise(rows, limit, delta)
        if np.isinf(limit):
            return Threshold(limit=limit, meaning=self._missing(rows), otherwise=self.otherwise, promise=promise)
        meaning = (
            f"the limit for at most {self.max_risk:.2%} wrong answers, except with probability"
            f" {100 * self.delta:g}%, on traffic like the calibration data"
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
        if self.method == "ltt":
            return labels_without_error(self.max_risk, self.delta / len(self.limits))
        if self.method == "ltt_fixed_sequence":
            return labels_without_error(self.max_risk, self.delta)
        # the first step accepts half of the labels, later ones fewer unless it succeeds; more labels take more steps
        steps = 1
        while True:
            accepted = labels_without_error(self.max_risk, self.delta / steps)
            accepted += binomial_upper_bound(0, accepted, self.delta / steps) >= self.max_risk  # it must be below
            if bisection_steps(2 * accepted - 1) <= steps:
                return 2 * accepted - 1
            steps += 1

    def _search(self, rows: GradedRows) -> tuple[float, float]:
        """The limit, +inf if none is safe, and the error level at which it was tested."""
        if self.method == "sgr":
            if rows.models > 1:
                raise InvalidInput(
                    "selective_risk: sgr ranks the confidences of one model, and a cascade has several; use"
                    " `method: ltt`, which tests given limits"
                )
            answerable = np.isfinite(rows.surest)
            level = self.delta / bisection_steps(max(1, int(answerable.sum())))
            if not answerable.any():
                return np.inf, level
            found = guaranteed_risk(
                rows.surest[answerable], 1 - rows.quality[answerable, 0], self.max_risk, delta=self.delta
            )
            return found.threshold, level
        limits = np.asarray(self.limits, dtype=np.float64)
        n_answered, lost = rows.at(limits)
        # from the highest limit down: the strictest comes first
        tested = rejected_limits(
            np.rint(lost[::-1]),
            n_answered[::-1],
            self.max_risk,
            delta=self.delta,
            method="bonferroni" if self.method == "ltt" else "fixed_sequence",
        )
        limit = float(limits[::-1][tested.rejected[-1]]) if tested.rejected else np.inf
        return limit, self.delta / len(limits) if self.method == "ltt" else self.delta

    def _promise(self, rows: GradedRows, limit: float, level: float) -> Promise:
        feasible = bool(np.isfinite(limit))
        n_answered, lost = rows.at(np.array([limit]))
        n, errors = int(n_answered[0]), round(float(lost[0]))
        return Promise(
            share="of the answers are wrong",
            target=self.max_risk,
            delta=self.delta,
            n=len(rows),
            errors=errors if feasible else None,
            bound=binomial_upper_bound(errors, n, level) if feasible else None,
            feasible=feasible,
            assumption=SAME_TRAFFIC,
        )

    def _missing(self, rows: GradedRows) -> str:
        n, needed = len(rows), self.labels_needed()
        promise = f"at most {self.max_risk:.2%} wrong answers at {100 * (1 - self.delta):g}% confidence"
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
        n_errors = int((rows.quality[:, 0] < 1).sum())
        return (
            f"no limit tried on {n:,} labels, {n_errors:,} of them wrong, can promise {promise};"
            " fewer errors among the most confident, or more labels, would allow it"
        )
