"""What a fit is worth label by label: the model's own probabilities of each, and macro F1 from head to tail."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from demur.audit.findings import Finding, number_or_none
from demur.audit.metrics.calibration import ece, ece_plus
from demur.audit.metrics.correlation import spearman_per_label
from demur.audit.metrics.discrimination import roc_auc
from demur.audit.metrics.evidence import MIN_LABELLED
from demur.audit.metrics.predictive_quality import label_buckets, macro_f1_by_bucket
from demur.uncertainty.checks import Array, Mask, same_length
from demur.uncertainty.label_probability import binary_entropy
from demur.uncertainty.output import LabelledOutput

MOST_LABELS = 30
"""Labels with lines of their own: those with the most rows."""

MOST_MEASURED = 20_000_000
"""With more pairs of a row and a label, nothing is measured label by label: each label takes a sort of all rows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedLabels:
    """The labels of a task, and how many of the labelled rows have each."""

    names: Sequence[str]
    counts: NDArray[np.intp]
    """[C]"""

    n: int
    """Labelled rows, those that were fitted on included."""

    @classmethod
    def of(cls, names: Sequence[str], truth: Mask) -> "NamedLabels":
        return cls(names=tuple(names), counts=truth.sum(axis=0).astype(np.intp), n=len(truth))


def label_lines(rows: LabelledOutput, predicted: Mask, labels: NamedLabels) -> Iterator[Finding]:
    """Yield the lines of `rows` [n], of which `predicted` [n, C] was said.

    Of an output that names only some labels of each row nothing is said: the probability of the others is not known.
    """
    if rows.output.slots is not None or not len(rows) or rows.truth.size > MOST_MEASURED:
        return
    same_length(labels=labels.names, probabilities=rows.output.probabilities.T)
    p, truth = rows.output.probabilities, rows.truth
    yield from _bucket_lines(truth, predicted, labels, exclusive=rows.exclusive)
    area = np.array([roc_auc(one, score) for one, score in zip(truth.T, p.T, strict=True)])
    yield _line("task_auroc", _mean(area), len(rows), TASK_AUROC)
    rho = np.full(len(area), np.nan)
    if not rows.exclusive:
        found = spearman_per_label(binary_entropy(p), predicted == truth)
        rho = found.per_label
        yield _line("label_rho", found.mean, len(rows), LABEL_RHO)
        yield _line("ece_plus", ece_plus(p, truth).ece_plus, len(rows), ECE_PLUS)
    counts = truth.sum(axis=0)
    order = np.argsort(-counts, kind="stable")[:MOST_LABELS]
    for at in order[counts[order] > 0].tolist():
        name, n = labels.names[at], int(counts[at])
        yield _line(f"label_auroc.{name}", area[at], n, "chance that a row with the label has more of its probability")
        gap = ece(p[:, at], truth[:, at]) if len(rows) >= MIN_LABELLED else np.nan
        yield _line(f"label_ece.{name}", gap, n, "ece of the label's probability before calibration")
        if not rows.exclusive:
            yield _line(f"label_rho.{name}", rho[at], n, LABEL_RHO)


TASK_AUROC = (
    "chance that a row of a label has a higher probability of it than another row, mean over labels: how well the model"
    " tells labels apart, and not how well a score finds its errors"
)
LABEL_RHO = "Spearman correlation of the entropy of a label with whether its decision was right; below 0 is good"
ECE_PLUS = "1 less the probability of the labels that hold, mean over labels; before calibration"


def _bucket_lines(truth: Mask, predicted: Mask, labels: NamedLabels, *, exclusive: bool) -> Iterator[Finding]:
    """Macro F1 of labels that are frequent, and of those that are not; nothing where all are in one bucket."""
    buckets = label_buckets(labels.counts, labels.n)
    if len(set(buckets)) == 1:
        return
    found = macro_f1_by_bucket(truth, predicted, buckets, absent="exclude" if exclusive else "zero")
    for bucket, value in found.items():
        own = buckets.count(bucket)
        if own:
            said = f"macro F1 of the {own} labels that are {bucket.replace('_', ' ')} among the labelled rows"
            yield _line(f"macro_f1_{bucket}", value, len(truth), said)


def _mean(values: Array) -> float:
    """The mean of those that are defined."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else np.nan


def _line(name: str, value: float, n: int, meaning: str) -> Finding:
    return Finding(name=name, value=number_or_none(float(value)), n=n, meaning=meaning)
