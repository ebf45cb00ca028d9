"""How good the predictions themselves are, from partial labels: macro F1 from weighted counts (METHODS 9.2).

`y_pred` is checked in every row, `y_true` read where a row has a label; `weights` [n] are 1 / label probability, 0
without a label. F1 is twice the weight of the hits over the weight of all mentions, as true and as predicted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from demur.audit.metrics.categories import encode
from demur.audit.metrics.predictive_quality import Absent, class_counts, mean_f1, mean_f1_by_bucket
from demur.audit.metrics.weighted_rows import Column, at, column_of, relative
from demur.uncertainty.checks import Array, InvalidInput, Mask, indicators, same_length

BLOCK = 1 << 13
"""Rows of label columns that are added up together."""


def weighted_macro_f1(y_true: Any, y_pred: Any, weights: Any) -> float:
    """Mean F1 over the classes that occur in `y_true` [n] or `y_pred` [n] of the labelled rows, one class a row."""
    w, true, predicted = relative(weights), column_of("y_true", y_true), column_of("y_pred", y_pred)
    same_length(y_true=true, y_pred=predicted, weights=w)
    (classes, guesses), n_classes = encode(y_true=_read_where(w > 0, true, predicted), y_pred=predicted)
    return class_counts(classes, guesses, n_classes, w).macro_f1()


def weighted_macro_f1_multilabel(y_true: Any, y_pred: Any, weights: Any, *, absent: Absent = "zero") -> float:
    """Mean F1 over the label columns of 0/1 `y_true` [n, L] and `y_pred` [n, L]; NaN without a labelled row.

    A row of `y_true` without a label may be None. `absent` says what becomes of a column that no labelled row names.
    """
    f1, any_label = _label_f1(y_true, y_pred, weights)
    mean = mean_f1(f1, absent)
    return mean if any_label else np.nan


def weighted_macro_f1_by_bucket(
    y_true: Any, y_pred: Any, weights: Any, buckets: Sequence[str], *, absent: Absent = "zero"
) -> dict[str, float]:
    """Return the weighted macro F1 over the labels of each bucket, where `buckets` [L] are those of `label_buckets`;
    NaN for an empty one."""
    f1, any_label = _label_f1(y_true, y_pred, weights)
    means = mean_f1_by_bucket(f1, buckets, absent)
    return means if any_label else dict.fromkeys(means, np.nan)


def _label_f1(y_true: Any, y_pred: Any, weights: Any) -> tuple[Array, bool]:
    """[L], NaN for a label that is neither true nor predicted in a labelled row; and whether there is such a row."""
    w, predicted = relative(weights), indicators("y_pred", y_pred)
    rows = column_of("y_true", y_true)
    same_length(y_true=rows, y_pred=predicted, weights=w)
    known = w > 0
    if not known.any():
        return np.full(predicted.shape[1], np.nan), False
    true, predicted, w = labelled_indicators("y_true", rows, known), predicted[known], w[known]
    if true.shape != predicted.shape:
        raise InvalidInput(f"y_true has {true.shape[1]} columns, y_pred {predicted.shape[1]}")
    hits, named = np.zeros(true.shape[1]), np.zeros(true.shape[1])
    for start in range(0, len(w), BLOCK):
        part = slice(start, start + BLOCK)
        hits += w[part] @ (true[part] & predicted[part]).astype(np.float64)
        named += w[part] @ (true[part].astype(np.float64) + predicted[part])
    return np.divide(2 * hits, named, out=np.full_like(named, np.nan), where=named > 0), True


def labelled_indicators(name: str, rows: Column, known: Mask) -> Mask:
    """Return the 0/1 rows [n_labelled, L] of those that have a label, which some must."""
    chosen = at(rows, known)
    return indicators(name, chosen.tolist() if isinstance(chosen, np.ndarray) and chosen.dtype == object else chosen)


def _read_where(known: Mask, values: Column, instead: Column) -> Column:
    """The values where there is a label, and elsewhere something that does not count."""
    if isinstance(values, np.ndarray) and isinstance(instead, np.ndarray) and values.dtype == instead.dtype:
        if values.ndim == instead.ndim == 1:
            return np.where(known, values, instead)
        raise InvalidInput("y_true and y_pred hold one class a row; with several use the multi-label version")
    return [a if here else b for a, b, here in zip(values, instead, known.tolist(), strict=True)]
