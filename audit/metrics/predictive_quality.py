"""How good the predictions themselves are: macro F1, by label frequency as well, and Jaccard (METHODS 5.4)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.audit.metrics.categories import Codes, encode
from demur.uncertainty.checks import Array, InvalidInput, Mask, indicators, one_of, same_length, whole_number
from demur.uncertainty.correctness import jaccard_similarity
from demur.uncertainty.tally import per_column

Absent = Literal["zero", "exclude"]
"""What a label that is neither true nor predicted anywhere does to a mean: counts as 0, or stays out."""

BUCKETS = ("head", "medium", "tail", "extreme_tail")


def macro_f1(y_true: Any, y_pred: Any) -> float:
    """Mean F1 over the classes that occur in `y_true` [n] or `y_pred` [n], one class a row."""
    (true, predicted), n_classes = encode(y_true=y_true, y_pred=y_pred)
    return class_counts(true, predicted, n_classes).macro_f1()


@dataclass(frozen=True, kw_only=True)
class ClassCounts:
    """Per class [C]: how many rows have it rightly, and how often it is named, as true or as predicted."""

    hits: NDArray[Any]
    named: NDArray[Any]

    def __sub__(self, other: "ClassCounts") -> "ClassCounts":
        return ClassCounts(hits=self.hits - other.hits, named=self.named - other.named)

    @property
    def n_present(self) -> int:
        """Classes that are named at all."""
        return int(np.count_nonzero(self.named))

    def macro_f1(self) -> float:
        """NaN when no class is named, that is, without rows."""
        present = self.named > 0
        return float((2 * self.hits[present] / self.named[present]).mean()) if present.any() else np.nan


def class_counts(true: Codes, predicted: Codes, n_classes: int, weights: Array | None = None) -> ClassCounts:
    """Count rows [n] whose classes are numbered from 0 to `n_classes` - 1; with `weights` [n], add these up instead."""
    right = true == predicted
    return ClassCounts(
        hits=np.bincount(true[right], weights=None if weights is None else weights[right], minlength=n_classes),
        named=np.bincount(true, weights=weights, minlength=n_classes)
        + np.bincount(predicted, weights=weights, minlength=n_classes),
    )


def macro_f1_prefixes(true: Codes, predicted: Codes, n_classes: int) -> Array:
    """Return [n]: the macro F1 of the first k rows, k = 1..n, in O(n log n) for any number of classes.

    Each row changes the F1 of two classes at most. The changes are found class by class and added up row by row.
    """
    n = len(true)
    if n == 0:
        return np.empty(0)
    classes = np.stack([true, predicted], axis=1).ravel()
    hit = np.zeros(2 * n)
    hit[::2] = true == predicted
    small = np.uint16 if n_classes <= 1 << 16 else np.intp  # numpy sorts 16 bits by radix
    order = np.argsort(classes.astype(small), kind="stable")
    ranked = classes[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1]))
    sizes = np.diff(np.append(starts, 2 * n))
    hits = np.append(0, np.cumsum(hit[order]))
    f1 = 2 * (hits[1:] - np.repeat(hits[starts], sizes)) / (np.arange(1, 2 * n + 1) - np.repeat(starts, sizes))
    change = np.diff(f1, prepend=0)
    change[starts] = f1[starts]  # a class begins at 0
    by_row, appears = np.empty(2 * n), np.zeros(2 * n, dtype=np.intp)
    by_row[order] = change
    appears[order[starts]] = 1
    present = np.cumsum(appears.reshape(n, 2).sum(axis=1))
    return np.asarray(np.cumsum(by_row.reshape(n, 2).sum(axis=1)) / present)


def macro_f1_multilabel(y_true: Any, y_pred: Any, *, absent: Absent = "zero") -> float:
    """Mean F1 over the label columns of 0/1 `y_true` [n, L] and `y_pred` [n, L]; NaN if no label is left."""
    return mean_f1(_label_f1(y_true, y_pred), absent)


def label_buckets(counts: Any, n_train: int) -> list[str]:
    """Sort labels by how many of `n_train` samples have them: head, medium, tail, extreme_tail.

    Head is 1% or more, medium 0.1% or more, tail 0.01% or more (MADE 4); in whole numbers, so 1% is exact.
    """
    numbers = np.asarray(counts)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise InvalidInput("counts is not a list of whole numbers")
    n = whole_number("n_train", n_train, least=1)
    if numbers.min() < 0 or numbers.max() > n:
        raise InvalidInput("counts has a number below 0 or above n_train")
    limits = ((100, "head"), (1000, "medium"), (10000, "tail"))
    return [next((name for share, name in limits if share * k >= n), "extreme_tail") for k in numbers.tolist()]


def macro_f1_by_bucket(
    y_true: Any, y_pred: Any, buckets: Sequence[str], *, absent: Absent = "zero"
) -> dict[str, float]:
    """`macro_f1_multilabel` over the labels of each bucket; NaN for a bucket without labels."""
    return mean_f1_by_bucket(_label_f1(y_true, y_pred), buckets, absent)


@dataclass(frozen=True, kw_only=True)
class Jaccard:
    """Overlap of true and predicted label sets, in [0, 1], per row and on average."""

    mean: float
    per_sample: Array


def jaccard(y_true: Any, y_pred: Any) -> Jaccard:
    """Size of the intersection over size of the union; 1 if both sets are empty, since "nothing applies" is right.

    `y_true` and `y_pred` are lists of n label lists, or boolean arrays [n, L].
    """
    if isinstance(y_true, np.ndarray) and isinstance(y_pred, np.ndarray) and y_true.ndim == y_pred.ndim == 2:
        true, predicted = _label_pair(y_true, y_pred)
        per_sample = jaccard_similarity(predicted, true)
    else:
        true_sets, predicted_sets = _sets("y_true", y_true), _sets("y_pred", y_pred)
        if same_length(y_true=true_sets, y_pred=predicted_sets) == 0:
            raise InvalidInput("y_true is empty")
        pairs = list(zip(true_sets, predicted_sets, strict=True))
        shared = np.array([len(a & b) for a, b in pairs])
        either = np.array([len(a | b) for a, b in pairs])
        per_sample = np.where(either == 0, 1.0, shared / np.maximum(either, 1))
    return Jaccard(mean=float(per_sample.mean()), per_sample=per_sample)


def mean_f1_by_bucket(f1: Array, buckets: Sequence[str], absent: Absent) -> dict[str, float]:
    """The mean F1 of the labels [L] in each bucket, where `buckets` [L] names that of each label."""
    if not isinstance(buckets, Sequence | np.ndarray):
        raise InvalidInput("buckets is not a list of words")
    for name in buckets:
        one_of("buckets", name, BUCKETS)
    same_length(labels=f1, buckets=buckets)
    member = np.array(buckets)
    return {name: mean_f1(f1[member == name], absent) for name in BUCKETS}


def mean_f1(f1: Array, absent: Absent) -> float:
    """The mean over labels [L], of which those that do not occur, NaN, count as 0 or stay out; NaN if none is left."""
    one_of("absent", absent, ("zero", "exclude"))
    values = np.nan_to_num(f1) if absent == "zero" else f1[~np.isnan(f1)]
    return float(values.mean()) if len(values) else np.nan


def _label_f1(y_true: Any, y_pred: Any) -> Array:
    """[L], NaN for a label that is neither true nor predicted."""
    true, predicted = _label_pair(y_true, y_pred)
    hits = per_column(true & predicted)
    named = per_column(true) + per_column(predicted)
    return np.where(named == 0, np.nan, 2 * hits / np.maximum(named, 1))


def _label_pair(y_true: Any, y_pred: Any) -> tuple[Mask, Mask]:
    true, predicted = indicators("y_true", y_true), indicators("y_pred", y_pred)
    if true.shape != predicted.shape:
        raise InvalidInput(f"y_true has shape {true.shape}, y_pred {predicted.shape}")
    return true, predicted


def _sets(name: str, rows: Any) -> list[frozenset[Any]]:
    try:
        sets = [frozenset(_labels(name, row)) for row in rows]
    except TypeError as error:
        raise InvalidInput(f"{name} is not a list of label lists: {error}") from None
    if any(label is None or label != label for row in sets for label in row):
        raise InvalidInput(f"{name} holds NaN or nothing in the place of a label")
    return sets


def _labels(name: str, row: Any) -> Collection[Any]:
    if isinstance(row, str | bytes | dict) or not isinstance(row, Collection):
        raise InvalidInput(f"{name} has {row!r} in the place of a list of labels")
    return row
