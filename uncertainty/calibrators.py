"""The calibrators that can be configured: maps from a score to a probability of being right."""

from collections.abc import Callable
from typing import Protocol

from uncertainty.checks import Array
from uncertainty.isotonic import Isotonic, IsotonicMap
from uncertainty.platt import Platt, PlattMap


class Calibrator(Protocol):
    """A fitted map. Evidence is the negated score: higher means more surely right."""

    def confidence(self, evidence: Array) -> Array: ...


class CalibratorRecipe(Protocol):
    """A calibrator as it is configured, before it has seen data."""

    def fit(self, evidence: Array, correct: Array) -> Calibrator: ...


CALIBRATORS: dict[str, Callable[..., CalibratorRecipe]] = {
    "isotonic": Isotonic,
    "platt": Platt,
}

FITTED_CALIBRATORS = (IsotonicMap, PlattMap)
"""What an artifact may hold in the place of a calibrator."""
