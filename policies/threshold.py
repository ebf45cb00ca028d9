"""Answer while the confidence is at or above a limit, and the ways to come by that limit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.limit import UNKNOWN, Limit
from demur.policies.promise import Promise
from demur.uncertainty.checks import (
    InvalidInput,
    Mask,
    finite,
    fraction,
    outcomes,
    real_number,
    same_length,
    snapped_ceil,
)

Otherwise = Literal["review", "abstain"]
"""What becomes of a held prediction: a person is asked, or nobody is."""

ROUNDING = 1e-12
"""Risks that differ by less are equal."""


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """A rule with a limit on confidence. An infinite limit answers nothing."""

    limit: float

    meaning: str
    """What the limit stands for; ends the reason of every held prediction."""

    otherwise: str = "review"
    promise: Promise | None = None

    reads: ClassVar[frozenset[str]] = frozenset()

    def decide(self, assessed: Assessment) -> Decisions:
        limit = Limit(of="confidence", bound=self.limit, meaning=self.meaning, least=True)
        return Decisions.where(
            limit.keeps(assessed.confidence),
            reasons=limit.reasons(assessed.confidence),
            otherwise=Action(self.otherwise),
        )


@dataclass(frozen=True, kw_only=True)
class ScoreLimit:
    """A limit on a score, which is higher when less sure: as a rule, and as a gate before another rule."""

    score: str
    limit: float
    meaning: str
    otherwise: str = "review"

    promise: ClassVar[Promise | None] = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.score})

    def passes(self, assessed: Assessment) -> Mask:
        return self._limit.keeps(assessed.scores[self.score])

    def reasons(self, assessed: Assessment, rows: Sequence[int]) -> list[str]:
        return self._limit.reasons(assessed.scores[self.score][list(rows)])

    def decide(self, assessed: Assessment) -> Decisions:
        known = ~np.isnan(assessed.confidence)
        reasons = self.reasons(assessed, range(len(assessed)))
        undefined = np.isnan(assessed.scores[self.score])
        return Decisions.where(
            self.passes(assessed) & known,
            reasons=[
                reason if told else UNKNOWN for reason, told in zip(reasons, (known | undefined).tolist(), strict=True)
            ],
            otherwise=Action(self.otherwise),
        )

    @property
    def _limit(self) -> Limit:
        return Limit(of=self.score, bound=self.limit, meaning=self.meaning, least=False)


@dataclass(frozen=True, kw_only=True)
class PromisedScoreLimit:
    """A rule with a limit on a score, up to which few answers are wrong: with that promise."""

    score: str
    limit: float
    meaning: str
    otherwise: str
    promise: Promise

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.score})

    def decide(self, assessed: Assessment) -> Decisions:
        return ScoreLimit(score=self.score, limit=self.limit, meaning=self.meaning, otherwise=self.otherwise).decide(
            assessed
        )


@dataclass(frozen=True, kw_only=True)
class ScoreGate(ScoreLimit):
    """A limit on a score as a gate, under the name that artifacts have for it."""


@dataclass(frozen=True, kw_only=True)
class GivenLimit:
    """`threshold`: a limit that somebody chose, from which confidence, or up to which a score, is answered. It promises
    nothing."""

    limit: float
    score: str | None = None
    """The score that it is a limit of; by default it is one of confidence."""

    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.score is None:
            fraction("limit", self.limit)
        else:
            real_number("limit", self.limit)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.score is None else frozenset({self.score})

    def fit(self, rows: GradedRows) -> Threshold | ScoreLimit:  # noqa: ARG002 - nothing is learnt
        meaning = "the limit in the configuration"
        if self.score is None:
            return Threshold(limit=self.limit, meaning=meaning, otherwise=self.otherwise)
        return ScoreLimit(score=self.score, limit=float(self.limit), meaning=meaning, otherwise=self.otherwise)


@dataclass(frozen=True, kw_only=True)
class TargetRisk:
    """`target_risk`: the lowest limit that kept the share of wrong answers on the fitted data within a target.

    Empirical: later traffic may do worse, even when it is drawn like the fitted data.
    """

    max_risk: float
    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        fraction("max_risk", self.max_risk, open_high=True)

    def fit(self, rows: GradedRows) -> Threshold:
        limits = np.unique(rows.surest if rows.models == 1 else rows.confidence)
        limits = limits[np.isfinite(limits)]
        n_answered, lost = rows.at(limits)
        allowed = np.flatnonzero(lost <= (self.max_risk + ROUNDING) * n_answered)
        if len(allowed) == 0:
            meaning = f"on {len(rows)} calibration rows no limit kept wrong answers within {self.max_risk:.2%}"
            return Threshold(limit=np.inf, meaning=meaning, otherwise=self.otherwise)
        meaning = f"the limit for at most {self.max_risk:.2%} wrong answers on the calibration data"
        return Threshold(limit=float(limits[allowed[0]]), meaning=meaning, otherwise=self.otherwise)


@dataclass(frozen=True, kw_only=True)
class RiskLimit:
    """Accept iff u <= threshold; -inf accepts nothing, and the risk is then NaN."""

    threshold: float
    coverage: float
    risk: float


@dataclass(frozen=True, kw_only=True)
class RejectionLimit:
    """Accept iff u <= threshold; -inf accepts nothing."""

    threshold: float
    n_rejected: int


def threshold_at_target_risk(u: Any, errors: Any, target: float) -> RiskLimit:
    """Return the largest score t at which the mean error of {u <= t} is at most `target`.

    `u` [n] is higher when less sure, `errors` [n] is 0/1. Carries no guarantee: see METHODS 4.3 for those that do.
    """
    scores, wrong = finite("u", u), outcomes("errors", errors)
    same_length(u=scores, errors=wrong)
    fraction("target", target)
    n = len(scores)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    risk = np.cumsum(wrong[order]) / np.arange(1, n + 1)
    last_of_tie = np.append(ranked[1:] != ranked[:-1], True)  # a limit takes a tie group whole
    allowed = np.flatnonzero(last_of_tie & (risk <= target + ROUNDING))
    if len(allowed) == 0:
        return RiskLimit(threshold=-np.inf, coverage=0.0, risk=np.nan)
    at = allowed[-1]
    return RiskLimit(threshold=float(ranked[at]), coverage=float((at + 1) / n), risk=float(risk[at]))


def threshold_at_rejection_rate(u: Any, rate: float, *, ties: Literal["accept", "reject"] = "accept") -> RejectionLimit:
    """Return the limit that rejects ceil(rate n) of the scores `u` [n], the least sure ones.

    Scores tied at the limit are all accepted, so the review budget is never exceeded; with `ties="reject"`
    they are all rejected, so that at least the asked share is held.
    """
    scores = np.sort(finite("u", u))
    fraction("rate", rate)
    if ties not in ("accept", "reject"):
        raise InvalidInput(f"ties is {ties!r}; it is 'accept' or 'reject'")
    n = len(scores)
    kept = n - snapped_ceil(rate * n)
    threshold = -np.inf if kept == 0 else float(scores[kept - 1])
    if ties == "reject" and 0 < kept < n and scores[kept] == threshold:
        below = int(np.searchsorted(scores, threshold, side="left"))
        threshold = -np.inf if below == 0 else float(scores[below - 1])
    return RejectionLimit(threshold=threshold, n_rejected=int((scores > threshold).sum()))
