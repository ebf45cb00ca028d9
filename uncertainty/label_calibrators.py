"""The ways to calibrate the most probable labels of a row that can be configured."""

from collections.abc import Callable

from demur.uncertainty.label_confidence import LabelCalibratorRecipe, TopKIsotonic
from demur.uncertainty.label_correctness_calibrator import TopKCorrectness
from demur.uncertainty.platt_top_k import TopKPlatt

LABEL_CALIBRATORS: dict[str, Callable[..., LabelCalibratorRecipe]] = {
    "isotonic": TopKIsotonic,
    "platt": TopKPlatt,
    "correctness": TopKCorrectness,
}
