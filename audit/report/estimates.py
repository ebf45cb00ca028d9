"""What the labels say, corrected for who was labelled, beside the plain count, with an interval where there is one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from demur.audit.metrics.evidence import EvidenceStatus
from demur.audit.metrics.intervals import normal_quantile
from demur.audit.metrics.predictive_quality import BUCKETS
from demur.audit.metrics.resampling import Interval
from demur.audit.report.calibration_estimates import at_k_estimates, calibration_estimates
from demur.audit.report.cells import RESAMPLED
from demur.audit.report.grounds import (
    NO_INTERVAL,
    NORMAL,
    Estimate,
    Grounds,
    counted,
    estimate,
    few_drawn,
    grounds_of,
    over,
    rest_of,
)
from demur.audit.report.risks import RiskEvidence, missed, missed_labels, risks
from demur.audit.report.score_estimates import score_estimates
from demur.audit.report.survey import TOP
from demur.uncertainty.checks import Array


def whole(evidence: RiskEvidence) -> Iterator[Estimate]:
    """Every number about all records."""
    counts, by = evidence.counts, evidence.by
    total = grounds_of(counts, by, 0)
    all_rows, answers = risks(evidence, answered=False)[0], risks(evidence, answered=True)[0]
    yield from (answers, all_rows)
    yield from _assisted(evidence, all_rows, answers)
    n = float(counts["n"][0])
    yield counted("coverage", counts["answered"][0] / n, int(n), "share of predictions that are answered")
    yield counted("deferral_rate", counts["review"][0] / n, int(n), "share that is held for a person")
    yield counted("abstention_rate", (n - counts["answered"][0] - counts["review"][0]) / n, int(n), ABSTAINED)
    caught = 1 - over(counts["a_w_wrong"], counts["w_wrong"])[0]
    index = RESAMPLED.index
    resampled = 1 - over(evidence.by_unit[:, 0, index("a_w_wrong")], evidence.by_unit[:, 0, index("w_wrong")])
    naive = 1 - over(counts["a_k_wrong"], counts["k_wrong"])[0]
    # the errors that were not caught are those among the answers, whose labels must be enough by themselves
    uncaught = replace(total, status=answers.grounds.status) if total.enough and answers.grounds.n else total
    yield estimate("caught_errors", caught, evidence.resamples.interval(resampled), naive, uncaught, CAUGHT)
    yield from _sets(evidence)
    yield from _classes(evidence, total)
    for when in evidence.tally.weighted.calibration:
        yield from calibration_estimates(evidence, when, total)
    yield from at_k_estimates(evidence, total, answers.grounds)
    for name in evidence.tally.weighted.scores:
        if name != TOP:
            yield from score_estimates(evidence, name, total)


ABSTAINED = "share that is neither answered nor given to a person"
CAUGHT = "share of all errors that were not answered"


def _assisted(evidence: RiskEvidence, *plain: Estimate) -> Iterator[Estimate]:
    """Predictions of all rows, put right by the labels of some (AIPW, METHODS 9.2)."""
    z = normal_quantile(evidence.by.settings.delta)
    for row, of in zip(evidence.tally.assisted, plain, strict=True):
        phi, squares, n = row.tolist()
        if n < 2:
            continue
        mean = phi / n
        error = np.sqrt(max(0.0, squares - n * mean * mean) / (n * (n - 1)))
        interval = Interval(lower=mean - z * error, upper=mean + z * error)
        if of.grounds.status != EvidenceStatus.SUFFICIENT or evidence.by.clustered:
            interval = NO_INTERVAL
        yield estimate(
            f"{of.name}_assisted", mean, interval, of.naive, of.grounds, f"{of.meaning}; {ASSISTED}", method=NORMAL
        )


ASSISTED = "foreseen from the confidence of every record, and put right by the labels (AIPW)"


def _sets(evidence: RiskEvidence) -> Iterator[Estimate]:
    counts = evidence.counts
    n = float(counts["set_n"][0])
    if not n or not counts["set_size"][0]:
        return
    lack = missed(evidence)[0]
    if counts["set_w"][0]:
        yield replace(
            lack,
            name="set_coverage",
            value=rest_of(lack.value),
            lower=rest_of(lack.upper),
            upper=rest_of(lack.lower),
            naive=rest_of(lack.naive),
            meaning=SET_COVERAGE,
        )
    if counts["k_set_right"][0] and counts["k_set_right"][0] != counts["k_set"][0]:
        lack = missed_labels(evidence)[0]
        yield replace(
            lack,
            name="label_coverage",
            value=rest_of(lack.value),
            lower=rest_of(lack.upper),
            upper=rest_of(lack.lower),
            naive=rest_of(lack.naive),
            meaning=LABEL_COVERAGE,
        )
    yield counted("set_size", counts["set_size"][0] / n, int(n), "mean number of labels in a prediction set")
    yield counted("set_single", counts["set_single"][0] / n, int(n), "share of sets of one label")
    yield counted("set_empty", counts["set_empty"][0] / n, int(n), "share of empty sets")


LABEL_COVERAGE = "of all labels that hold, the share that is in their prediction sets"
SET_COVERAGE = "share of prediction sets that hold the right label; of several, the mean share that they hold"


def _classes(evidence: RiskEvidence, total: Grounds) -> Iterator[Estimate]:
    classes = evidence.tally.weighted.classes
    naive = f1_by_class(evidence.tally.naive.classes.sum(axis=0))
    if classes.shape[-1] == 0:
        return
    f1 = f1_by_class(classes.sum(axis=0))
    interval = NO_INTERVAL
    if len(classes) > 1:
        interval = evidence.resamples.interval(_mean_known(f1_by_class(evidence.resamples.of(classes))))
    note = few_drawn(evidence.counts)
    yield estimate("macro_f1", _mean_known(f1), interval, _mean_known(naive), total, MACRO_F1, note=note)
    for bucket in BUCKETS if evidence.by.buckets else ():
        members = [label for label, own in evidence.by.buckets.items() if own == bucket]
        if members:
            mean, naive_mean = (_mean_of(x, members, evidence.by.labels) for x in (f1, naive))
            yield estimate("macro_f1", mean, NO_INTERVAL, naive_mean, total, BUCKET_F1, of=bucket)
    right, naive_right = evidence.tally.weighted.right_labels, evidence.tally.naive.right_labels
    if right[0].any():
        missing, naive_missing = (_mean_known(1 - over(x[1], x[0])) for x in (right, naive_right))
        if right[2].any() or naive_right[2].any():
            missing, naive_missing, note = np.nan, None, NOT_ON_RECORD
        yield estimate("ece_plus_before", missing, NO_INTERVAL, naive_missing, total, ECE_PLUS, note=note)


MACRO_F1 = "mean over labels of the F1 of all predictions"
BUCKET_F1 = "the same over the labels that held this often in the data of the fit; one that does not occur counts 0"
ECE_PLUS = (
    "ECE+: mean over labels of 1 less the mean probability that the model gave to the label where it held; 0 is best"
)
NOT_ON_RECORD = (
    "unknown: a record keeps the probabilities of the most probable labels, and some labels that hold are not among"
    " them; `demur fit` reports ECE+ from all probabilities"
)


def _mean_of(f1: Array, members: Sequence[str], labels: Sequence[str]) -> float:
    """The mean over some labels, of which those that are not mentioned count 0."""
    known = dict(zip(labels, np.nan_to_num(f1).tolist(), strict=True))
    return float(np.mean([known.get(label, 0.0) for label in members]))


def f1_by_class(sums: Array) -> Array:
    """[..., c] from hits and mentions [..., 2, c]; NaN for a label that is not mentioned."""
    return over(2 * sums[..., 0, :], sums[..., 1, :])


def _mean_known(values: Array) -> Any:
    """[...], the mean over the last axis without NaN; NaN of nothing else."""
    there = ~np.isnan(values)
    return over(np.where(there, values, 0.0).sum(axis=-1), there.sum(axis=-1).astype(np.float64))


def named(estimates: Sequence[Estimate], name: str, of: str = "") -> Estimate | None:
    return next((one for one in estimates if one.name == name and one.of == of), None)
