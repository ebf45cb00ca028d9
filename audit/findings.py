"""What can be said about decisions once the truth is known: one number a line, each with its n."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics import calibration, discrimination, optimal_coverage, selective
from demur.audit.metrics.predictive_quality import macro_f1
from demur.audit.metrics.ranking import Ranking
from demur.audit.metrics.top_k import TopK, ks_of
from demur.uncertainty.checks import Array, Mask

REJECTED = (0.01, 0.05, 0.10, 0.15)


@dataclass(frozen=True, kw_only=True, eq=False)
class Classes:
    """The predicted and the right class of each row, as numbers."""

    predicted: NDArray[np.intp]
    true: NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, eq=False)
class TopLabels:
    """The most probable labels of each row, where labels do not exclude each other: [n, k] each."""

    probabilities: Array
    calibrated: Array
    hits: Mask
    named: Mask
    """False behind the last label of a row that names fewer than k."""

    right: Array
    """[n], how many labels hold, among them or not."""


@dataclass(frozen=True, kw_only=True, eq=False)
class KnownDecisions:
    """Decisions on `n` rows whose truth is known."""

    quality: Array
    """[n], how right the prediction was: 0 or 1, or a share of it for label sets."""

    answered: Mask
    confidence: Array
    """[n], calibrated; no NaN."""

    raw_confidence: Array | None
    """[n], what the model itself gave to its prediction, before calibration; None for label sets."""

    scores: Mapping[str, Array]

    classes: Classes | None = None
    top: TopLabels | None = None
    sets: Array | None = None
    """[n, 2], where there are prediction sets: their size, and which share of what is right they hold, 0 or 1 where one
    label is."""

    right_labels: Array | None = None
    """[n], where there are prediction sets and labels do not exclude each other: how many labels are right."""

    found_labels: Array | None = None
    """[n], where labels do not exclude each other: how many of the labels that are right are predicted."""

    def __len__(self) -> int:
        return len(self.quality)

    def rows(self, index: NDArray[np.intp]) -> "KnownDecisions":
        """The rows at these positions, which may come more than once."""
        classes, top = self.classes, self.top
        return KnownDecisions(
            quality=self.quality[index],
            answered=self.answered[index],
            confidence=self.confidence[index],
            raw_confidence=None if self.raw_confidence is None else self.raw_confidence[index],
            scores={name: u[index] for name, u in self.scores.items()},
            classes=classes and Classes(predicted=classes.predicted[index], true=classes.true[index]),
            top=top
            and TopLabels(
                probabilities=top.probabilities[index],
                calibrated=top.calibrated[index],
                hits=top.hits[index],
                named=top.named[index],
                right=top.right[index],
            ),
            sets=None if self.sets is None else self.sets[index],
            right_labels=None if self.right_labels is None else self.right_labels[index],
            found_labels=None if self.found_labels is None else self.found_labels[index],
        )

    @property
    def correct(self) -> Array:
        """[n], 1 where the prediction was right and nothing but right."""
        return np.asarray(self.quality == 1, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of an audit. An undefined value is None, and the meaning says when that is so."""

    name: str
    """What was measured; of what, if that is a score, after a dot."""

    value: float | None
    n: int
    meaning: str


def findings(rows: KnownDecisions) -> list[Finding]:
    """Everything this room can measure on the rows, as they are: no weights, no intervals."""
    if len(rows) == 0:
        return []
    return [
        *decision_lines(rows),
        *_calibration(rows),
        *(line for name, u in scores_of(rows).items() for line in score_lines(rows, name, u)),
        *set_lines(rows),
        *top_k_lines(rows),
    ]


def scores_of(rows: KnownDecisions) -> dict[str, Array]:
    """The recorded scores, and the confidence turned around: each [n], higher when less sure."""
    return {**rows.scores, "confidence": -rows.confidence}


def decision_lines(rows: KnownDecisions) -> Iterator[Finding]:
    n, held = len(rows), len(rows) - int(rows.answered.sum())
    loss, wrong = 1 - rows.quality, 1 - rows.correct
    yield _finding("accuracy", rows.correct.mean(), n, "share of predictions that were right, answered or not")
    if (rows.quality != rows.correct).any():
        yield _finding("jaccard", rows.quality.mean(), n, "mean similarity of the predicted labels and the right ones")
    yield _finding("coverage", rows.answered.mean(), n, "share that was answered")
    yield _finding("deferral_rate", held / n, n, "share that was held")
    yield _finding(
        "selective_risk",
        loss[rows.answered].mean() if rows.answered.any() else np.nan,
        n - held,
        "share of wrong answers (of label sets: mean loss of similarity) among the answered; undefined if none was",
    )
    yield _finding(
        "caught_errors",
        wrong[~rows.answered].sum() / wrong.sum() if wrong.any() else np.nan,
        int(wrong.sum()),
        "share of all errors that were held; undefined without errors",
    )
    if rows.classes:
        yield _finding(
            "macro_f1",
            macro_f1(rows.classes.true, rows.classes.predicted),
            n,
            "mean over classes of the F1 of all predictions",
        )


def _calibration(rows: KnownDecisions) -> Iterator[Finding]:
    yield from calibration_lines(rows.confidence, rows.quality, "")
    if rows.raw_confidence is not None:
        yield from calibration_lines(rows.raw_confidence, rows.quality, "_before")


CALIBRATION: dict[str, tuple[Callable[[Array, Array], float], str]] = {
    "ece": (calibration.ece, "gap of confidence and share right, over 15 equal intervals, averaged over rows"),
    "mce": (calibration.mce, "the largest of these gaps"),
    "ace": (calibration.ace, "the same as ece over 10 bins of equal mass"),
    "brier": (calibration.brier, "mean squared gap of confidence and outcome"),
    "nll": (calibration.nll, "mean of -ln of the probability given to what happened"),
    "ece_brier_mean": (calibration.ece_brier_mean, "mean of ece over 10 bins and brier"),
    "citl": (calibration.citl, "mean confidence less share right: above 0 promises too much"),
    "c_slope": (calibration.c_slope, "slope of outcome on confidence: 1 is ideal, below 1 over-confident"),
}


def calibration_lines(confidence: Array, quality: Array, when: str) -> Iterator[Finding]:
    n = len(quality)
    if all_or_nothing(quality):
        for name, (metric, meaning) in CALIBRATION.items():
            yield _finding(name + when, metric(confidence, quality), n, meaning)
        return
    yield _finding(f"ece{when}", calibration.share_gap(confidence, quality), n, "gap of expected and mean similarity")
    yield _finding(f"brier{when}", np.square(confidence - quality).mean(), n, "mean squared gap of the two")
    yield _finding(f"citl{when}", (confidence - quality).mean(), n, "mean gap: above 0 promises too much")


def all_or_nothing(quality: Array) -> bool:
    return bool(np.isin(quality, (0.0, 1.0)).all())


def score_lines(rows: KnownDecisions, name: str, u: Array) -> Iterator[Finding]:
    """How well one score ranks: sorted once, for all of its lines."""
    n, ranking, correct = len(rows), Ranking.by(name, u), rows.correct
    loss = 1 - rows.quality
    lines: list[tuple[str, float, str]] = [
        ("auroc", discrimination.error_roc_auc(correct, ranking), "chance that an error ranks above a right answer"),
        ("au_prc", discrimination.error_au_prc(correct, ranking), "precision-recall area, errors as positives"),
        ("prr", selective.prr(rows.quality, ranking), "prediction rejection ratio: 1 perfect, 0 chance"),
        ("prr_50", selective.prr(rows.quality, ranking, max_rejection=0.5), "the same, rejecting half at most"),
        ("rc_auc", selective.rc_auc(loss, ranking), "area under the risk-coverage curve; lower is better"),
        ("e_aurc", selective.e_aurc(loss, ranking), "that area less the one of a perfect score; lower is better"),
    ]
    if rows.classes:
        true, predicted = rows.classes.true, rows.classes.predicted
        lines += [
            ("ti", optimal_coverage.trust_index(true, predicted, ranking), TRUST),
            ("ti_95", optimal_coverage.trust_index(true, predicted, ranking, coverage=0.95), TRUST),
            ("e_auopt_rc", optimal_coverage.e_auopt_rc(true, predicted, ranking), "risk-coverage area up to macro F1"),
        ]
        for r in optimal_coverage.rejection_report(true, predicted, ranking, rates=REJECTED):
            at = f"{r.rate:.0%}".rstrip("%")
            lines += [
                (f"rejected_errors_{at}", r.rejected_error_precision, f"share of errors among the {at}% least sure"),
                (f"error_recall_{at}", r.error_recall, f"share of all errors that is among the {at}% least sure"),
                (f"delta_macro_f1_{at}", r.delta_macro_f1, f"macro F1 won by holding the {at}% least sure"),
            ]
    for metric, value, meaning in lines:
        yield _finding(f"{metric}.{name}", value, n, meaning)


TRUST = "macro F1 of the surest rows: as many as the macro F1 of all, or 95%"


def set_lines(rows: KnownDecisions) -> Iterator[Finding]:
    if rows.sets is None:
        return
    n, size, covered = len(rows), rows.sets[:, 0], rows.sets[:, 1]
    yield _finding(
        "set_coverage", covered.mean(), n, "share of prediction sets that hold the right label; of several, mean share"
    )
    if rows.right_labels is not None:
        right = rows.right_labels
        share = (covered * right).sum() / right.sum() if right.any() else np.nan
        yield _finding(
            "label_coverage", share, n, "of all labels that hold, the share that is in their prediction sets"
        )
        if rows.found_labels is not None:
            share = rows.found_labels.sum() / right.sum() if right.any() else np.nan
            yield _finding("label_recall", share, n, "of all labels that hold, the share that is predicted")
    yield _finding("set_size", size.mean(), n, "mean number of labels in a set")
    yield _finding("set_single", (size == 1).mean(), n, "share of sets of one label")
    yield _finding("set_empty", (size == 0).mean(), n, "share of empty sets")


def top_k_lines(rows: KnownDecisions) -> Iterator[Finding]:
    if rows.top is None:
        return
    n, width = rows.top.hits.shape
    some = rows.top.right > 0
    for k in ks_of(width):
        named = rows.top.named[:, :k]
        hits = rows.top.hits[:, :k] & named
        for when, scores in (("", rows.top.calibrated), ("_before", rows.top.probabilities)):
            if named.any():
                top = TopK(scores=scores[:, :k][named][:, None], hits=hits[named][:, None])
                for name, value in (("ece", top.ece()), ("ace", top.ace()), ("brier", top.brier()), ("nll", top.nll())):
                    meaning = f"{name} of the {k} most probable labels"
                    yield _finding(f"{name}_at_{k}{when}", value, int(named.sum()), meaning)
        yield _finding(f"precision_at_{k}", hits.mean(), n * k, f"share of the {k} most probable labels that hold")
        recall = (hits.sum(axis=1)[some] / rows.top.right[some]).mean() if some.any() else np.nan
        meaning = f"mean share of the labels that hold that are among the {k} most probable; undefined if none holds"
        yield _finding(f"recall_at_{k}", recall, int(some.sum()), meaning)


def number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _finding(name: str, value: float | np.floating[Any], n: int, meaning: str) -> Finding:
    return Finding(name=name, value=number_or_none(float(value)), n=n, meaning=meaning)
