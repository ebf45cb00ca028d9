"""How often each class occurs now, from what is predicted now (Lipton et al. 2018; METHODS 9.4)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from demur.uncertainty.checks import Array, InvalidInput, finite

LARGEST_CONDITION = 1e12


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelShift:
    """How the shares of C classes have moved, [C]. NaN where the reference cannot tell the classes apart, or has none
    of one."""

    weights: Array
    """How many times as often each class occurs now; below 0 only by chance."""

    prior: Array
    reference_prior: Array


def label_shift(confusion: Any, predicted: Any) -> LabelShift:
    """Solve for the classes behind `predicted` [C], counts or shares of predictions now.

    `confusion` [C, C] counts, weighted or not, reference rows by predicted and by true class. Assumes that inputs of a
    class look as they did; only how often classes occur has changed.
    """
    joint, now = finite("confusion", confusion, ndim=2), finite("predicted", predicted)
    if joint.shape != (len(now), len(now)):
        raise InvalidInput(f"confusion has the shape {joint.shape}, not ({len(now)}, {len(now)}) as predicted asks for")
    for name, values in (("confusion", joint), ("predicted", now)):
        if values.min() < 0 or values.max() == 0:
            raise InvalidInput(f"{name} holds a number below 0, or nothing but 0")
    joint, now = (values / values.max() for values in (joint, now))  # first, so that sums stay finite
    joint, now = joint / joint.sum(), now / now.sum()
    old = joint.sum(axis=0)
    if np.linalg.cond(joint) > LARGEST_CONDITION:  # also where a class is absent
        unknown = np.full(len(now), np.nan)
        return LabelShift(weights=unknown, prior=unknown, reference_prior=old)
    weights = np.linalg.solve(joint, now)
    prior = np.clip(weights, 0, None) * old
    return LabelShift(weights=weights, prior=prior / prior.sum(), reference_prior=old)
