"""How right a prediction was, as a number from 0 to 1: what confidence is a forecast of."""

import numpy as np

from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.tally import per_row


def exact_match(predicted: Mask, truth: Mask) -> Array:
    """1 where the predicted labels [n, C] are just the right ones, else 0; result [n]."""
    return np.asarray((predicted == truth).all(axis=1), dtype=np.float64)


def jaccard_similarity(predicted: Mask, truth: Mask) -> Array:
    """Labels in both sets over labels in either, [n]; 1 where both are empty: "nothing applies" was right."""
    both, either = per_row(predicted & truth), per_row(predicted | truth)
    return np.where(either == 0, 1.0, both / np.maximum(either, 1))


QUALITIES = {"exact": exact_match, "jaccard": jaccard_similarity}
