"""The report of a fit on rows that it has not seen: every finding with a 95% interval.

The rows must be a plain sample of the traffic. An interval is exact where rows are counted (Clopper & Pearson), and
comes from resampled rows elsewhere; there is none where errors, or right answers, are too few for one (METHODS 9.3).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.audit.findings import (
    Classes,
    Finding,
    KnownDecisions,
    TopLabels,
    all_or_nothing,
    calibration_lines,
    decision_lines,
    findings,
    number_or_none,
    score_lines,
    scores_of,
    set_lines,
    top_k_lines,
)
from demur.audit.group_lines import group_intervals, group_lines
from demur.audit.label_lines import NamedLabels, label_lines
from demur.audit.metrics import calibration
from demur.audit.metrics.calibration_sums import WIDTH, columns, values
from demur.audit.metrics.evidence import MIN_LABELLED, EvidenceStatus, evidence
from demur.audit.metrics.intervals import clopper_pearson
from demur.audit.metrics.predictive_quality import macro_f1
from demur.audit.metrics.resampling import Interval, percentile_interval, resampled, resampled_rows
from demur.audit.metrics.roc_interval import error_roc_interval
from demur.policies.judgement import Judgement
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.output import NO_LABEL, LabelledOutput
from demur.uncertainty.top_k import top_labels

COUNTED = ("accuracy", "coverage", "deferral_rate", "caught_errors", "set_coverage", "set_single", "set_empty")
DECIDED = ("accuracy", "coverage", "deferral_rate", "caught_errors")
"""What is said of all rows, also of those whose confidence is unknown."""

SEED = 0
FIRST = 9
"""Sums that come before those of calibration."""

RANKED_CELLS, FEWEST_REPLICATES, MOST_REPLICATES = 8_000_000, 99, 399
"""Of ranking metrics, which have to be computed anew for each sample of rows."""


def held_out_report(
    judgement: Judgement, rows: LabelledOutput, quality: Array, *, labels: NamedLabels | None = None
) -> Mapping[str, Any]:
    """The report of a fit: `findings` with intervals, on rows that the fit has not seen and that are a plain sample.

    Rows whose confidence is unknown, which are all held, count where decisions are counted; everything else is said of
    the others. Nothing is said of sets where one label is predicted and no sets are fitted. With `labels`, more is said
    label by label, and with groups in the rows group by group.
    """
    known = np.isfinite(judgement.confidence)
    if known.all():
        return _report(judgement, rows, quality, labels)
    others = _report(judgement.rows(known), rows.rows(known), quality[known], labels) if known.any() else {}
    every = KnownDecisions(
        quality=quality,
        answered=judgement.decisions.answered,
        confidence=judgement.confidence,
        raw_confidence=None,
        scores={},
    )
    decided = _as_json((line for line in decision_lines(every) if line.name in DECIDED), _of_counts(every))
    return {**others, **decided}


def _report(
    judgement: Judgement, rows: LabelledOutput, quality: Array, labels: NamedLabels | None
) -> Mapping[str, Any]:
    members = judgement.members
    judged = KnownDecisions(
        quality=quality,
        answered=judgement.decisions.answered,
        confidence=judgement.confidence,
        raw_confidence=_raw_confidence(rows),
        scores={name: u for name, u in judgement.scores.items() if not np.isnan(u).any()},  # those of all models
        classes=_classes_of(judgement, rows) if rows.exclusive else None,
        top=_top_of(judgement, rows),
        sets=np.column_stack([members.sum(axis=1), _share_held(members, rows.truth)])
        if judgement.with_sets or not rows.exclusive
        else None,
        right_labels=None if rows.exclusive else rows.truth.sum(axis=1).astype(np.float64),
        found_labels=None if rows.exclusive else (judgement.predicted & rows.truth).sum(axis=1).astype(np.float64),
    )
    by_label = [] if labels is None else list(label_lines(rows, judgement.predicted, labels))
    by_group = [] if rows.groups is None else list(group_lines(judged, rows.groups.tolist()))
    intervals = {**_of_sums(judged), **_of_ranks(judged), **_of_counts(judged), **group_intervals(by_group, judged)}
    return _as_json([*findings(judged), *by_label, *by_group], intervals)


def _classes_of(judgement: Judgement, rows: LabelledOutput) -> Classes:
    """What was predicted and what is right. Of a sparse output the labels themselves, and all that no row names as one:
    a column there is a rank."""
    predicted, true = judgement.predicted.argmax(axis=1), rows.classes
    if rows.output.slots is None:
        return Classes(predicted=predicted, true=true)
    named = [np.take_along_axis(rows.output.slots, one[:, None], axis=1)[:, 0] for one in (predicted, true)]
    _, codes = np.unique(np.concatenate(named), return_inverse=True)
    return Classes(predicted=codes[: len(rows)], true=codes[len(rows) :])


def _raw_confidence(rows: LabelledOutput) -> Array | None:
    """[n], what the model itself gave to its prediction; None where labels do not exclude each other, or where it gave
    1 to whatever it said, as a reply does that names a label and no number."""
    highest = rows.output.probabilities.max(axis=1)
    return highest if rows.exclusive and (highest < 1).any() else None


def _share_held(members: Mask, truth: Mask) -> Array:
    """[n], which share of the labels that are right the set holds; all of them where none is."""
    right = truth.sum(axis=1)
    return np.where(right, (members & truth).sum(axis=1) / np.maximum(right, 1), 1.0)


def calibration_report(confidence: Array, quality: Array) -> Mapping[str, Any]:
    """The calibration lines alone, as JSON."""
    intervals = _intervals_of_sums(columns(confidence, quality), values) if _enough(quality) else {}
    return _as_json(calibration_lines(confidence, quality, ""), intervals)


def rank_report(correct: Mask, u: Array) -> Mapping[str, Any]:
    """How a score [n] ranks errors among predictions that were right or not [n], as JSON."""
    found = error_roc_interval(correct, u)
    return {
        "n": len(u),
        "errors": found.n_errors,
        **{name: number_or_none(getattr(found, name)) for name in ("value", "lower", "upper")},
    }


def _of_counts(rows: KnownDecisions) -> dict[str, Interval]:
    """Exact intervals of shares of rows (Clopper & Pearson)."""
    counted = {*COUNTED, "selective_risk"} if all_or_nothing(rows.quality) else {*COUNTED}
    if rows.sets is not None and not all_or_nothing(rows.sets[:, 1]):
        counted.discard("set_coverage")
    lines = [
        line for line in [*decision_lines(rows), *set_lines(rows)] if line.name in counted and line.value is not None
    ]
    return {line.name: clopper_pearson(round((line.value or 0.0) * line.n), line.n) for line in lines}


def _of_sums(rows: KnownDecisions) -> dict[str, Interval]:
    """Resampled intervals of what is made of sums over rows, all at once."""
    if not _enough(rows.quality):
        return {}
    n, loss = len(rows), 1 - rows.quality
    sets = np.zeros((n, 2)) if rows.sets is None else rows.sets
    right = np.zeros(n) if rows.right_labels is None else rows.right_labels
    said = np.zeros(n) if rows.found_labels is None else rows.found_labels
    labels = np.column_stack([sets[:, 1] * right, right, said])
    first = np.column_stack([np.ones(n), rows.answered, rows.answered * loss, rows.quality, sets, labels])
    confidences = {"": rows.confidence, "_before": rows.raw_confidence}
    known = {
        when: columns(confidence, rows.quality) for when, confidence in confidences.items() if confidence is not None
    }

    def statistic(sums: Array) -> dict[str, Array]:
        drawn, answered, lost, right, labels, held, found_labels, right_labels, said_labels = sums[:, :FIRST].T
        with np.errstate(invalid="ignore"):  # nothing answered: the NaN that is meant
            found = {"selective_risk": lost / answered, "jaccard": right / drawn}
        found |= {"set_size": labels / drawn, "set_coverage": held / drawn}
        if rows.right_labels is not None:
            with np.errstate(invalid="ignore"):  # no label holds
                found["label_coverage"] = found_labels / right_labels
                if rows.found_labels is not None:
                    found["label_recall"] = said_labels / right_labels
        for at, when in enumerate(known):
            its = sums[:, FIRST + at * WIDTH : FIRST + (at + 1) * WIDTH]
            found |= {name + when: value for name, value in values(its).items()}
        return found

    return _intervals_of_sums(np.hstack([first, *known.values()]), statistic)


def _intervals_of_sums(parts: Array, statistic: Callable[[Array], dict[str, Array]]) -> dict[str, Interval]:
    names = list(statistic(parts.sum(axis=0)[np.newaxis]))
    drawn = resampled(
        parts, lambda sums: np.column_stack(list(statistic(sums).values())), rng=np.random.default_rng(SEED)
    )
    return {name: percentile_interval(drawn[:, at]) for at, name in enumerate(names)}


def _of_ranks(rows: KnownDecisions) -> dict[str, Interval]:
    """Resampled intervals of everything that depends on the order of rows, or on classes."""
    if not _enough(rows.quality):
        return {}

    def measure(index: NDArray[np.intp]) -> dict[str, float]:
        drawn = rows.rows(index)
        lines = [line for name, u in scores_of(drawn).items() for line in score_lines(drawn, name, u)]
        found = {line.name: np.nan if line.value is None else line.value for line in [*lines, *top_k_lines(drawn)]}
        if drawn.classes:
            found["macro_f1"] = macro_f1(drawn.classes.true, drawn.classes.predicted)
        if all_or_nothing(rows.quality):
            found["ace"] = calibration.ace(drawn.confidence, drawn.quality)
            if drawn.raw_confidence is not None:
                found["ace_before"] = calibration.ace(drawn.raw_confidence, drawn.quality)
        return found

    replicates = rank_replicates(len(rows), len(rows.scores) + 1)
    return resampled_rows(len(rows), measure, rng=np.random.default_rng(SEED), replicates=replicates)


def rank_replicates(n: int, scores: int) -> int:
    """How many samples of `n` rows the intervals of ranking metrics rest on: fewer where each one takes longer."""
    return int(np.clip(RANKED_CELLS // (n * scores), FEWEST_REPLICATES, MOST_REPLICATES))


def _enough(quality: Array) -> bool:
    """Whether a resampled interval means anything (METHODS 9.3)."""
    if not all_or_nothing(quality):
        return len(quality) >= MIN_LABELLED
    return evidence(quality, np.ones(len(quality))).status is EvidenceStatus.SUFFICIENT


def _top_of(judgement: Judgement, rows: LabelledOutput) -> TopLabels | None:
    if judgement.label_confidence is None:
        return None
    labels = top_labels(rows.output.probabilities, judgement.label_confidence.shape[1])
    return TopLabels(
        probabilities=np.take_along_axis(rows.output.probabilities, labels, axis=1),
        calibrated=judgement.label_confidence,
        hits=np.take_along_axis(rows.truth, labels, axis=1),
        named=np.ones(labels.shape, dtype=bool)
        if rows.output.slots is None
        else np.take_along_axis(rows.output.slots, labels, axis=1) != NO_LABEL,
        right=rows.truth.sum(axis=1),
    )


def _as_json(lines: Iterable[Finding], intervals: Mapping[str, Interval]) -> Mapping[str, Any]:
    nothing = Interval(lower=np.nan, upper=np.nan)
    return {
        line.name: {
            "value": line.value,
            "n": line.n,
            "lower": number_or_none(intervals.get(line.name, nothing).lower),
            "upper": number_or_none(intervals.get(line.name, nothing).upper),
        }
        for line in lines
    }
