"""From a score to a number in [0, 1] without labels (PRED 3.2; GAP 4.3): where nothing can be fitted.

Such a confidence is no probability of being right: calibration metrics of it describe the scaling as much as the
score. Prefer a fitted calibrator, and say so in a report that uses one of these.
"""

from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, finite, whole_number
from demur.uncertainty.min_max import fit_min_max


def minmax_confidence(u: Any, reference: Any = None) -> Array:
    """Confidence [n] of scores `u` by the range of `reference`, or of the batch itself, which only an audit may do.

    NaN, not confidence 1, where the reference is constant.
    """
    scores = finite("u", u)
    return fit_min_max(-(scores if reference is None else finite("reference", reference))).confidence(-scores)


def entropy_confidence(u: Any, n_classes: Any) -> Array:
    """1 - u / ln C, clipped to [0, 1], of entropies `u` [n] in nats over C >= 2 classes."""
    scores, classes = finite("u", u), whole_number("n_classes", n_classes, least=2)
    return np.asarray(1 - np.clip(scores / np.log(classes), 0, 1))
