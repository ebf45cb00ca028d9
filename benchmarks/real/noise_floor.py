"""The calibration error that chance alone leaves: ECE of few rows is above 0 however good the confidence is."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from demur.uncertainty.checks import Array, Mask


def noise_floor(
    error: Callable[[Array, NDArray[np.bool_]], float], confidence: Array, *, draws: int, rng: np.random.Generator
) -> float:
    """Mean `error` of `confidence` against outcomes drawn with just these probabilities, each independently.

    Rows that go wrong together, such as images of one patient, leave more than this.
    """
    simulated: list[Mask] = [rng.random(confidence.shape) < confidence for _ in range(draws)]
    return float(np.mean([error(confidence, outcome) for outcome in simulated]))
