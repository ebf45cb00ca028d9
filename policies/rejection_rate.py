"""Hold a given share of the predictions, the least sure ones, also where many rows have the same confidence."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from demur.policies.decision import Action, Assessment, Decisions
from demur.policies.graded import GradedRows
from demur.policies.limit import Limit
from demur.policies.promise import Promise
from demur.policies.threshold import Otherwise, ScoreLimit
from demur.uncertainty.checks import fraction, snapped_ceil


@dataclass(frozen=True, kw_only=True)
class RankedLimit:
    """Answer above a limit on confidence. At the limit itself, the score behind the confidence decides.

    A calibrator such as isotonic regression gives many rows one confidence, and the score still tells them apart.
    """

    limit: float
    """Infinite: nothing is answered."""

    score: str | None
    """The score behind the confidence, higher when less sure; None in a cascade, where each model has its own."""

    score_limit: float
    """At the limit, rows with a score up to this one are answered. Plus infinity: all that are not undefined."""

    asked: float
    """The share of the fitted rows that was to be held."""

    held: float
    """The share of the fitted rows that is held."""

    n: int
    """Fitted rows."""

    otherwise: str = "review"

    promise: ClassVar[Promise | None] = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset() if self.score is None else frozenset({self.score})

    @property
    def meaning(self) -> str:
        """What the limit stands for."""
        return f"the limit that held {self.held:.2%} of the calibration data"

    @property
    def remarks(self) -> list[str]:
        """What an operator should know, if the fit holds another share than was asked for."""
        if abs(self.held - self.asked) <= 1 / max(1, self.n):
            return []
        said = f"rejection_rate: {self.asked:.2%} was asked for, and the limit holds {self.held:.2%} of {self.n:,} rows"
        if self.held > self.asked:
            return [f"{said}: so many are stopped by a gate, or have no confidence"]
        return [f"{said}: the others tie with rows that are answered; choose a score with more different values"]

    def decide(self, assessed: Assessment) -> Decisions:
        limit = Limit(of="confidence", bound=self.limit, meaning=self.meaning, least=True)
        answered = limit.keeps(assessed.confidence)
        reasons = [limit.reason(value) for value in assessed.confidence.tolist()]
        if self.score is not None and np.isfinite(self.limit):
            behind = ScoreLimit(score=self.score, limit=self.score_limit, meaning=self.meaning)
            tied = assessed.confidence == self.limit
            answered = answered & (~tied | behind.passes(assessed))
            rows = np.flatnonzero(tied).tolist()
            for row, reason in zip(rows, behind.reasons(assessed, rows), strict=True):
                reasons[row] = f"confidence {self.limit:.2f} is at its limit, and {reason}"
        return Decisions.where(answered, reasons=reasons, otherwise=Action(self.otherwise))


@dataclass(frozen=True, kw_only=True)
class RejectionRate:
    """`rejection_rate`: the limit that holds the least sure share of the fitted data.

    Rows of one confidence are told apart by the score behind it. Rows that tie in both are answered, so that no more
    people are asked than was meant; the fitted rule says what it holds.
    """

    rate: float
    otherwise: Otherwise = "review"

    certifies: ClassVar[bool] = False
    acts_on_sets: ClassVar[bool] = False
    reads: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        fraction("rate", self.rate)

    def fit(self, rows: GradedRows) -> RankedLimit:
        confidence, n = rows.surest, len(rows)  # -inf where no limit answers the row: it is the first to be held
        scores = np.zeros(n) if rows.scores is None else np.where(np.isfinite(rows.scores), rows.scores, np.inf)
        kept = n - snapped_ceil(self.rate * n)
        limit, score_limit = np.inf, np.inf
        if kept > 0:
            last = np.lexsort((scores, -confidence))[kept - 1]
            limit, score_limit = float(confidence[last]), float(scores[last])
            if np.isneginf(limit):  # whatever can be answered is
                limit, score_limit = -1.0, np.inf
        known = np.ones(n, dtype=bool) if rows.scores is None else np.isfinite(rows.scores)
        answered = (confidence > limit) | ((confidence == limit) & known & (scores <= score_limit))
        return RankedLimit(
            limit=limit,
            score=None if rows.scores is None else rows.score,
            score_limit=score_limit,
            asked=self.rate,
            held=1 - float(answered.mean()) if n else 0.0,
            n=n,
            otherwise=self.otherwise,
        )
