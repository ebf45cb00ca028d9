"""Two scores as one, by their ranks in a reference set (HUQ; Vazhentsev et al. 2023; PRED Table 7)."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from demur.uncertainty.checks import Array, finite, fraction, one_of, same_length, snapped_floor

Variant = Literal["linear", "step"]


@dataclass(frozen=True, kw_only=True)
class HybridRanks:
    """How far up in the reference set two scores of a row lie, mixed into one number.

    `linear`: (1 - alpha) of the epistemic rank and alpha of the aleatoric one. `step`: a row that is among the most
    ordinary by its epistemic score goes by its aleatoric score alone.
    """

    reference_epistemic: Array
    """[N], ascending: how strange the input is, as with a Mahalanobis distance."""

    reference_aleatoric: Array
    """[N], ascending: how torn the model is, as with the softmax response."""

    ordinary_aleatoric: Array
    """[m], ascending: the aleatoric scores of the most ordinary reference rows; [0] if there is none."""

    alpha: float
    variant: Variant
    delta_min: float
    delta_max: float

    def mix(self, epistemic: Any, aleatoric: Any) -> Array:
        """[n]: higher is less sure. About (0, 1]; a row beyond all of the reference gets at most 1 + 1/(2N)."""
        strange, torn = finite("epistemic", epistemic), finite("aleatoric", aleatoric)
        same_length(epistemic=strange, aleatoric=torn)
        n = len(self.reference_epistemic)
        by_strange = _ranks(strange, self.reference_epistemic)
        by_torn = _ranks(torn, self.reference_aleatoric)
        mixed = ((1 - self.alpha) * by_strange + self.alpha * by_torn) / n
        if self.variant == "linear":
            return mixed
        ordinary = by_strange <= snapped_floor(n * self.delta_min)
        very_torn = by_torn > snapped_floor(n * self.delta_max)
        among_ordinary = _ranks(torn, self.ordinary_aleatoric) / n
        return np.where(ordinary, np.where(very_torn, by_torn / n, among_ordinary), mixed)


def fit_hybrid(
    epistemic: Any,
    aleatoric: Any,
    *,
    alpha: float = 0.2,
    variant: Variant = "linear",
    delta_min: float = 0.1,
    delta_max: float = 0.9,
) -> HybridRanks:
    """Keep the two scores [N] of the reference set, row by row the same inputs."""
    strange, torn = finite("reference_epistemic", epistemic), finite("reference_aleatoric", aleatoric)
    n = same_length(reference_epistemic=strange, reference_aleatoric=torn)
    one_of("variant", variant, ("linear", "step"))
    for name, value in (("alpha", alpha), ("delta_min", delta_min), ("delta_max", delta_max)):
        fraction(name, value)
    ordinary = _ranks(strange, np.sort(strange)) <= snapped_floor(n * delta_min)
    return HybridRanks(
        reference_epistemic=np.sort(strange),
        reference_aleatoric=np.sort(torn),
        ordinary_aleatoric=np.sort(torn[ordinary]),
        alpha=float(alpha),
        variant=variant,
        delta_min=float(delta_min),
        delta_max=float(delta_max),
    )


def _ranks(values: Array, reference: Array) -> Array:
    """How many of the ascending `reference` lie below, ties counting a half, and a half: an average rank from 1."""
    below = np.searchsorted(reference, values, side="left")
    at_or_below = np.searchsorted(reference, values, side="right")
    return (below + at_or_below) / 2 + 0.5
