"""Whether at most the promised share of answers is wrong: fitted on draws from real rows, whose true risk is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from benchmarks.real.predictions import Index
from demur.policies.graded import GradedRows
from demur.policies.guaranteed_risk import guaranteed_risk
from demur.policies.selective_risk import LIMITS, SelectiveRisk
from demur.policies.threshold import TargetRisk
from demur.uncertainty.checks import Array

N_FITTED = 1000
DELTA = 0.1
WITHOUT_PROMISE = ("target_risk", "sgr, last step")


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerCase:
    """`n` answers of one model to rows that it was not trained on."""

    data: str
    confidence: Array
    """[n], as the model gave it: fitted on nothing here."""

    correct: Array
    """[n], 0 or 1"""

    risks: tuple[float, ...]
    """The targets."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerOutcome:
    """What one rule did at one target, in D draws and D splits."""

    data: str
    rule: str
    risk: float
    promises: bool

    limits: Array
    """[D], of rows drawn with replacement: the whole data are then what the promise is about."""

    true_risk: Array
    """[D], of all rows that reach the limit; NaN where none does."""

    coverage: Array
    """[D], share of all rows that reach it."""

    test_risk: Array
    """[D], of the other rows of a split, whose fitted rows were drawn without replacement."""

    @property
    def broken(self) -> int:
        return int((self.true_risk > self.risk).sum())

    @property
    def above_in_test(self) -> int:
        return int((self.test_risk > self.risk).sum())

    @property
    def silent(self) -> int:
        """How often nothing is answered."""
        return int((self.coverage == 0).sum())


def broken_by_chance(draws: int, delta: float = DELTA) -> int:
    """As many broken promises or fewer are counted in 95 of 100 such tables, if each breaks with probability delta."""
    return int(binom.ppf(0.95, draws, delta))


Rule = Callable[[Array, Array, float], float]
"""From confidence [n], correct [n] and a target to the limit at and above which is answered; +inf answers nothing."""


def _target_risk(confidence: Array, correct: Array, risk: float) -> float:
    return TargetRisk(max_risk=risk).fit(GradedRows.of_one(confidence, correct)).limit


def _sgr(confidence: Array, correct: Array, risk: float) -> float:
    return SelectiveRisk(max_risk=risk, delta=DELTA, method="sgr").fit(GradedRows.of_one(confidence, correct)).limit


def _last_step(confidence: Array, correct: Array, risk: float) -> float:
    """Where the algorithm as printed ends, whether or not its bound meets the target."""
    return guaranteed_risk(confidence, 1 - correct, risk, delta=DELTA).last_iterate.threshold


def _ltt(confidence: Array, correct: Array, risk: float) -> float:
    return SelectiveRisk(max_risk=risk, delta=DELTA, method="ltt").fit(GradedRows.of_one(confidence, correct)).limit


def _ltt_fixed_sequence(confidence: Array, correct: Array, risk: float) -> float:
    return (
        SelectiveRisk(max_risk=risk, delta=DELTA, method="ltt_fixed_sequence")
        .fit(GradedRows.of_one(confidence, correct))
        .limit
    )


def _ltt_from_nine_tenths(confidence: Array, correct: Array, risk: float) -> float:
    """The same without the highest limits, which few rows reach."""
    limits = tuple(limit for limit in LIMITS if limit <= 0.9)
    recipe = SelectiveRisk(max_risk=risk, delta=DELTA, method="ltt_fixed_sequence", limits=limits)
    return recipe.fit(GradedRows.of_one(confidence, correct)).limit


RULES: Mapping[str, Rule] = {
    "target_risk": _target_risk,
    "sgr, last step": _last_step,
    "sgr": _sgr,
    "ltt": _ltt,
    "ltt_fixed_sequence": _ltt_fixed_sequence,
    "ltt_fixed_sequence, from 0.9": _ltt_from_nine_tenths,
}


def measure(case: AnswerCase, draws: int, seed: int, peers: Mapping[str, Rule]) -> list[AnswerOutcome]:
    rng = np.random.default_rng(seed)
    n = len(case.correct)
    drawn = [rng.integers(n, size=N_FITTED) for _ in range(draws)]
    parts = [rng.permutation(n) for _ in range(draws)]
    return [
        _outcome(case, name, rule, risk, drawn, parts)
        for name, rule in {**RULES, **peers}.items()
        for risk in case.risks
    ]


def _outcome(
    case: AnswerCase, name: str, rule: Rule, risk: float, drawn: Sequence[Index], parts: Sequence[Index]
) -> AnswerOutcome:
    limits = np.array([rule(case.confidence[rows], case.correct[rows], risk) for rows in drawn])
    whole = [_risk_and_coverage(case, np.arange(len(case.correct)), limit) for limit in limits]
    tested = []
    for part in parts:
        fit, test = part[:N_FITTED], part[N_FITTED:]
        tested.append(_risk_and_coverage(case, test, rule(case.confidence[fit], case.correct[fit], risk)))
    return AnswerOutcome(
        data=case.data,
        rule=name,
        risk=risk,
        promises=name not in WITHOUT_PROMISE,
        limits=limits,
        true_risk=np.array([risk for risk, _ in whole]),
        coverage=np.array([coverage for _, coverage in whole]),
        test_risk=np.array([risk for risk, _ in tested]),
    )


def _risk_and_coverage(case: AnswerCase, rows: Index, limit: float) -> tuple[float, float]:
    answered = case.confidence[rows] >= limit
    if not answered.any():
        return np.nan, 0.0
    return float(1 - case.correct[rows][answered].mean()), float(answered.mean())
