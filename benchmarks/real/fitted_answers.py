"""Promises of answers made by the whole fit, on draws from real rows whose true risk is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.real.answer_promises import DELTA, broken_by_chance
from benchmarks.real.predictions import Index
from benchmarks.real.tables import table
from demur.library.selective_classifier import SelectiveClassifier
from demur.policies.betting import ltt_betting
from demur.policies.graded import GradedRows
from demur.policies.selective_risk import LIMITS, SelectiveRisk
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.isotonic import Isotonic

N_LABELLED = 1_000
"""Rows that a fit is given; it keeps 40% of them for its report."""

RATES = (0.1, 0.3)


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerRows:
    """All `n` rows of one model, which are the traffic here."""

    data: str
    probabilities: Array
    """[n, C]"""

    classes: Index
    """[n]; below 0 where no label is right, so that every answer is wrong."""

    risks: tuple[float, ...]
    """The targets."""

    @property
    def wrong(self) -> Mask:
        return np.asarray(self.probabilities.argmax(axis=1) != self.classes)

    @property
    def right(self) -> Array:
        """[n], 0 or 1"""
        return np.asarray(~self.wrong, dtype=np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedAnswers:
    """What D fits of one rule do to all rows of the data."""

    data: str
    risk: float
    rule: str
    true_risk: Array
    """[D], NaN where nothing is answered."""

    answered: Array
    """[D], share of all rows."""

    @property
    def broken(self) -> int:
        return int((self.true_risk > self.risk).sum())

    @property
    def silent(self) -> int:
        return int((self.answered == 0).sum())


Decide = Callable[[AnswerRows, Index, float], Mask]
"""From the drawn rows [m] and a target to which of all rows [n] are answered."""


def _fitted(rows: AnswerRows, drawn: Index, policy: Mapping[str, Any], calibrator: str) -> Mask:
    """By the fit of the product. A row without a right label gets one that the model does not predict."""
    p = rows.probabilities
    classes = np.where(rows.classes < 0, p.argmin(axis=1), rows.classes)
    made = SelectiveClassifier(
        None,
        policy=policy,
        confidence={"calibrator": calibrator},
        labels=[str(label) for label in range(p.shape[1])],
        prediction_set={"kind": "split", "alpha": 0.1},
        anyway=True,
        random_state=int(drawn[0]),
    )
    made.fit_calibration(p[drawn], classes[drawn])
    return np.asarray(made.decide(p).answered)


def by_fit(method: str, calibrator: str) -> Decide:
    def decide(rows: AnswerRows, drawn: Index, risk: float) -> Mask:
        policy = {"kind": "selective_risk", "max_risk": risk, "delta": DELTA, "method": method}
        return _fitted(rows, drawn, policy, calibrator)

    return decide


def _sgr_as_it_was(rows: AnswerRows, drawn: Index, risk: float) -> Mask:
    """40% for the report, 30% for the calibrator and 30% for the rule, which ranks calibrated confidences."""
    top, right = rows.probabilities.max(axis=1), rows.right
    calibration, rule = drawn[400:700], drawn[700:]
    fitted = Isotonic().fit(top[calibration], right[calibration])
    confidence = fitted.confidence(top)
    graded = GradedRows.of_one(confidence[rule], right[rule])
    return np.asarray(confidence >= SelectiveRisk(max_risk=risk, delta=DELTA).fit(graded).limit)


def _by_betting(rows: AnswerRows, drawn: Index, risk: float) -> Mask:
    """The function of arrays, on the model's own probabilities and the rows that `sgr` has."""
    u, rule = 1 - rows.probabilities.max(axis=1), drawn[400:]
    limits = 1 - np.array(LIMITS)[::-1]
    found = ltt_betting(u[rule], rows.wrong[rule].astype(np.float64), limits, risk, delta=DELTA)
    return np.asarray(u <= found.threshold if found.rejected else np.zeros(len(u), dtype=bool))


RULES: Mapping[str, Decide] = {
    "sgr": by_fit("sgr", "isotonic"),
    "sgr, as it was": _sgr_as_it_was,
    "ltt": by_fit("ltt", "isotonic"),
    "ltt by betting, of probabilities": _by_betting,
}
RULES_OF_MODEL: Mapping[str, Decide] = {
    "sgr": by_fit("sgr", "correctness"),
    "ltt": by_fit("ltt", "correctness"),
}
"""Behind the calibrator that reads the whole output: it ranks better, and takes rows of its own."""


def measure(rows: AnswerRows, rules: Mapping[str, Decide], draws: int, seed: int) -> list[FittedAnswers]:
    """Each rule on the same draws, with replacement: then the promise is about just these rows."""
    found = []
    for risk in rows.risks:
        rng = np.random.default_rng(seed)
        drawn = [rng.integers(len(rows.classes), size=N_LABELLED) for _ in range(draws)]
        for name, decide in rules.items():
            answered = [decide(rows, some, risk) for some in drawn]
            found.append(
                FittedAnswers(
                    data=rows.data,
                    risk=risk,
                    rule=name,
                    true_risk=np.array([rows.wrong[one].mean() if one.any() else np.nan for one in answered]),
                    answered=np.array([one.mean() for one in answered]),
                )
            )
    return found


def answers_table(found: Sequence[FittedAnswers]) -> str:
    rows = []
    for one in found:
        draws = len(one.answered)
        wrong = "" if one.silent == draws else f"{np.nanmean(one.true_risk):.3f}"
        low, high = np.quantile(one.answered, [0.05, 0.95])
        rows.append(
            (
                one.data,
                f"{one.risk:.0%}",
                one.rule,
                f"{one.broken} of {draws}",
                f"{one.silent} of {draws}",
                f"{one.answered.mean():.3f} ({low:.2f} to {high:.2f})",
                wrong,
            )
        )
    return table(("data", "wrong at most", "rule", "promise broken", "nothing answered", "answered", "wrong"), rows)


def answers_summary(found: Sequence[FittedAnswers]) -> str:
    """One line for each rule, over all data and targets."""
    rows = []
    for rule in dict.fromkeys(one.rule for one in found):
        own = [one for one in found if one.rule == rule]
        draws = len(own[0].answered)
        rows.append(
            (
                rule,
                str(len(own)),
                f"{max(one.broken for one in own)} of {draws}",
                str(broken_by_chance(draws)),
                f"{np.mean([one.silent / draws for one in own]):.0%}",
                f"{np.mean([one.answered.mean() for one in own]):.3f}",
            )
        )
    header = ("rule", "lines", "broken most often", "allowed by chance", "fits that answer nothing", "answered, mean")
    return table(header, rows)


def held_table(cases: Sequence[AnswerRows], draws: int, seed: int) -> str:
    """What `rejection_rate` holds of all rows, and what it held before the score told tied confidences apart."""
    made = []
    for rows in cases:
        for rate in RATES:
            rng = np.random.default_rng(seed)
            now, before = [], []
            for _ in range(draws):
                drawn = rng.integers(len(rows.classes), size=N_LABELLED)
                now.append(1 - _fitted(rows, drawn, {"kind": "rejection_rate", "rate": rate}, "isotonic").mean())
                before.append(_held_before(rows, drawn[400:], rate))
            cells = [f"{np.mean(held):.1%} ({np.min(held):.1%} to {np.max(held):.1%})" for held in (before, now)]
            made.append((rows.data, f"{rate:.0%}", *cells))
    return table(("data", "to be held", "as it was: mean (least to most)", "now: mean (least to most)"), made)


def _held_before(rows: AnswerRows, fit: Index, rate: float) -> float:
    """By a limit on calibrated confidence alone: all rows that tie with it are answered."""
    top = rows.probabilities.max(axis=1)
    calibrator = Isotonic().fit(top[fit], rows.right[fit])
    confidence = calibrator.confidence(top)
    ranked = np.sort(calibrator.confidence(top[fit]))
    return float((confidence < ranked[int(np.ceil(rate * len(fit)))]).mean())
