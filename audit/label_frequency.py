"""How good predictions are for frequent and for rare labels (MADE 4)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.predictive_quality import BUCKETS, label_buckets
from traffic.record import Answer


@dataclass(frozen=True, kw_only=True)
class BucketF1:
    """Macro F1 over the labels of one frequency bucket; NaN without labels."""

    bucket: str
    macro_f1: float
    n_labels: int


def f1_by_frequency(
    truth: Sequence[Answer], predicted: Sequence[Answer], counts: Mapping[str, int], n_train: int
) -> list[BucketF1]:
    """F1 per bucket of labels, by how many of `n_train` fitted rows had them; a label that never occurs here counts 0.

    Counts pairs of row and label, so nothing as wide as the labels is made.
    """
    if n_train == 0 or not counts:
        return []
    hits: Counter[str] = Counter()
    named: Counter[str] = Counter()
    for true, guess in zip(truth, predicted, strict=True):
        right, said = _set(true), _set(guess)
        hits.update(right & said)
        named.update(right)
        named.update(said)
    buckets = label_buckets(list(counts.values()), n_train)
    by_bucket: dict[str, list[float]] = {bucket: [] for bucket in BUCKETS}
    for label, bucket in zip(counts, buckets, strict=True):
        by_bucket[bucket].append(2 * hits[label] / named[label] if named[label] else 0.0)
    return [
        BucketF1(bucket=bucket, macro_f1=float(np.mean(values)) if values else np.nan, n_labels=len(values))
        for bucket, values in by_bucket.items()
    ]


def _set(answer: Answer) -> set[str]:
    return {answer} if isinstance(answer, str) else set(answer)
