"""Predictions that are sets of labels, and a score of the whole set from scores of its labels (MADE A.4)."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from demur.uncertainty.checks import InvalidInput, finite


def label_set(name: str, labels: Any) -> frozenset[Hashable]:
    """Return `labels` as a set; order and repeats say nothing. It may be empty: "nothing applies" is a prediction."""
    if isinstance(labels, str | bytes | Mapping) or not isinstance(labels, Iterable):
        raise InvalidInput(f"{name} is {labels!r}, not a list of labels")
    try:
        chosen = frozenset(labels)
    except TypeError:
        raise InvalidInput(f"{name} holds something that cannot be a label") from None
    if any(label is None or label != label for label in chosen):  # only NaN differs from itself
        raise InvalidInput(f"{name} holds None or NaN, which are no labels")
    return chosen


def mean_over_predicted_labels(label_uncertainties: Any, predicted: Any) -> float:
    """Mean of the uncertainties, given as label -> number, of the predicted labels; NaN if none is predicted.

    An empty prediction is not a sure one, so it has no score rather than 0. A predicted label without an
    uncertainty raises.
    """
    if not isinstance(label_uncertainties, Mapping):
        raise InvalidInput("label_uncertainties is no mapping from labels to numbers")
    chosen = label_set("predicted", predicted)
    if missing := chosen - label_uncertainties.keys():
        raise InvalidInput(f"label_uncertainties lacks predicted labels: {sorted(map(str, missing))}")
    if not label_uncertainties:
        return np.nan
    values = finite("label_uncertainties", list(label_uncertainties.values()))
    values = values[[label in chosen for label in label_uncertainties]]
    return float(values.mean()) if chosen else np.nan
