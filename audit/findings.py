"""What can be said about decisions once the truth is known: one number a line, each with its n."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.calibration import brier, ece
from audit.discrimination import error_roc_auc
from audit.selective import prr, rc_auc
from policies.selector import Judgement
from uncertainty.checks import Array, Mask
from uncertainty.output import LabelledOutput


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Decisions on `n` rows whose truth is known."""

    correct: Array
    """[n], 1 where the prediction was right."""

    answered: Mask
    confidence: Array
    """[n], calibrated; no NaN."""

    raw_confidence: Array
    """[n], what the model itself gave to its prediction, before calibration."""

    scores: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.correct)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of an audit. An undefined value is None, and the note says why."""

    name: str
    value: float | None
    n: int
    meaning: str


def findings(rows: Judged) -> list[Finding]:
    """Everything this room can measure on the rows, as they are: no weights, no intervals."""
    n, held = len(rows), len(rows) - int(rows.answered.sum())
    if n == 0:
        return []
    wrong = 1 - rows.correct
    lines = [
        _finding("accuracy", rows.correct.mean(), n, "share of predictions that were right, answered or not"),
        _finding("coverage", rows.answered.mean(), n, "share that was answered"),
        _finding("deferral_rate", held / n, n, "share that was held"),
        _finding(
            "selective_risk",
            wrong[rows.answered].mean() if rows.answered.any() else np.nan,
            n - held,
            "share of wrong answers among the answered; undefined when nothing was answered",
        ),
        _finding(
            "caught_errors",
            wrong[~rows.answered].sum() / wrong.sum() if wrong.any() else np.nan,
            int(wrong.sum()),
            "share of all errors that were held; undefined without errors",
        ),
        _finding("ece", ece(rows.confidence, rows.correct), n, "expected calibration error of the confidence"),
        _finding(
            "ece_before",
            ece(rows.raw_confidence, rows.correct),
            n,
            "the same of the model's own top probability",
        ),
        _finding("brier", brier(rows.confidence, rows.correct), n, "mean squared gap of confidence and outcome"),
        _finding(
            "brier_before",
            brier(rows.raw_confidence, rows.correct),
            n,
            "the same of the model's own top probability",
        ),
    ]
    for name, score in {**rows.scores, "confidence": -rows.confidence}.items():
        lines += [
            _finding(
                f"auroc.{name}",
                error_roc_auc(rows.correct, score),
                n,
                "chance that an error ranks above a right answer",
            ),
            _finding(f"prr.{name}", prr(rows.correct, score), n, "prediction rejection ratio: 1 perfect, 0 chance"),
            _finding(
                f"rc_auc.{name}",
                rc_auc(wrong, score),
                n,
                "area under the risk-coverage curve; lower is better",
            ),
        ]
    return lines


def held_out_report(judgement: Judgement, rows: LabelledOutput) -> Mapping[str, Any]:
    """The report of a fit: `findings` on rows that the fit has not seen, and how the label sets did."""
    judged = Judged(
        correct=rows.correct,
        answered=judgement.decisions.answered,
        confidence=judgement.confidence,
        raw_confidence=rows.output.probabilities.max(axis=1),
        scores=judgement.scores,
    )
    n = len(rows)
    covered = judgement.members[np.arange(n), rows.classes]
    sets = [
        _finding("set_coverage", covered.mean(), n, "share of label sets that hold the right label"),
        _finding("set_size", judgement.members.sum(axis=1).mean(), n, "mean number of labels in a set"),
    ]
    return {line.name: {"value": line.value, "n": line.n} for line in [*findings(judged), *sets]}


def _finding(name: str, value: float | np.floating[Any], n: int, meaning: str) -> Finding:
    number = float(value)
    return Finding(name=name, value=None if np.isnan(number) else number, n=n, meaning=meaning)
