"""Rows as somebody gives them: which are trained on, how much each counts, and where each comes from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.calibration_store.rows_apart import split
from demur.uncertainty.checks import Array, InvalidInput, Mask, finite, same_length


def trained_and_calibrated(
    target: NDArray[Any], exclusive: bool, share: float, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return positions to train on, and a `share` to calibrate on, of every class in the same proportion.

    Of a class that none would be trained on, the first row is: a model cannot predict what it has not seen.
    """
    n = len(target)
    classes, first = np.zeros(n, dtype=np.intp), np.zeros(0, dtype=np.intp)
    if exclusive:
        _, first, classes = np.unique(target, return_index=True, return_inverse=True)
    calibrated, trained = split(np.arange(n), classes, share, rng)
    unseen = first[~np.isin(np.arange(len(first)), classes[trained])]
    return np.sort(np.concatenate([trained, unseen])), np.setdiff1d(calibrated, unseen)


def weights_of(given: Any, truth: Mask) -> Array | None:
    """[n], positive numbers; None where every row stands for itself alone."""
    if given is None:
        return None
    weights = finite("sample_weight", given)
    same_length(sample_weight=weights, y=truth)
    if weights.min() <= 0:
        raise InvalidInput("sample_weight has a value that is not above 0; leave such rows out")
    return weights


def group_names(groups: Any) -> NDArray[np.object_] | None:
    """[n], where each row comes from, as text; None for nowhere, and None where no row tells."""
    if groups is None:
        return None
    return np.array([None if _is_nothing(one) else str(one) for one in np.asarray(groups).tolist()], dtype=object)


def _is_nothing(group: Any) -> bool:
    return group is None or (isinstance(group, float) and np.isnan(group))
