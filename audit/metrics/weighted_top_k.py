"""Calibration of the k highest-scoring labels of each row, from partial labels (METHODS 9.2)."""

from typing import Any, Literal

import numpy as np

from demur.audit.metrics.weighted_calibration import weighted_ace, weighted_brier, weighted_ece, weighted_nll
from demur.audit.metrics.weighted_quality import labelled_indicators
from demur.audit.metrics.weighted_rows import column_of, relative, weighted_mean
from demur.uncertainty.checks import InvalidInput, one_of, same_length, unit_interval, whole_number
from demur.uncertainty.top_k import top_labels

Metric = Literal["ece", "ace", "brier", "nll", "precision"]


def weighted_at_k(metric: Metric, probs: Any, targets: Any, weights: Any, k: int, *, n_bins: int = 10) -> float:
    """Return the metric on the n k pooled pairs of score and hit, each with the weight of its row; NaN without a label.

    `probs` [n, L] are those of all rows, of tied labels the one with the lowest index first; rows of 0/1 `targets`
    [n, L] are read where there is a label and may be None elsewhere. `n_bins` is for `ece` and `ace`.
    """
    one_of("metric", metric, ("ece", "ace", "brier", "nll", "precision"))
    w, p, rows = relative(weights), unit_interval("probs", probs, ndim=2), column_of("targets", targets)
    same_length(probs=p, targets=rows, weights=w)
    whole_number("n_bins", n_bins, least=1)
    labels = top_labels(p, whole_number("k", k, most=p.shape[1], least=1))
    hits, known = np.zeros(labels.shape), w > 0
    if known.any():
        present = labelled_indicators("targets", rows, known)
        if present.shape[1] != p.shape[1]:
            raise InvalidInput(f"targets has {present.shape[1]} labels, probs {p.shape[1]}")
        hits[known] = np.take_along_axis(present, labels[known], axis=1)
    pooled = np.take_along_axis(p, labels, axis=1).ravel(), hits.ravel(), np.repeat(w, labels.shape[1])
    if metric == "ece":
        return weighted_ece(*pooled, n_bins=n_bins)
    if metric == "ace":
        return weighted_ace(*pooled, n_bins=n_bins)
    if metric == "brier":
        return weighted_brier(*pooled)
    if metric == "nll":
        return weighted_nll(*pooled)
    return weighted_mean(*pooled[1:])
