"""How far the confidence in an answer is to be believed, before and after calibration on other rows."""

from collections.abc import Mapping

import numpy as np

from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.predictions import Predictions
from benchmarks.real.splits import SEED, splits
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.calibration import ace, brier, ece, nll
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.uncertainty.beta import Beta
from demur.uncertainty.calibrators import CalibratorRecipe, evidence, fit_calibrator
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.platt import Platt
from demur.uncertainty.temperature import Temperature

DRAWS = 200
"""Simulated outcomes behind a noise floor, shared out among the splits."""

BEFORE = "as it is"
CALIBRATORS: Mapping[str, CalibratorRecipe | None] = {
    BEFORE: None,
    "isotonic": Isotonic(),
    "Platt": Platt(),
    "temperature": Temperature(),
    "beta": Beta(),
}


def right(rows: LabelledOutput) -> Array:
    """[n], 1 where the most probable label is right."""
    first = rows.output.probabilities.argmax(axis=1)
    return np.asarray(rows.truth[np.arange(len(rows)), first], dtype=np.float64)


def calibrated(recipe: CalibratorRecipe | None, fit: LabelledOutput, test: LabelledOutput) -> Array:
    """Confidence [n] in the most probable label of `test`, by the service's own road from score to confidence."""
    u = softmax_response(test.output.probabilities)
    if recipe is None:
        return np.asarray(1 - u)
    fitted = fit_calibrator(recipe, softmax_response(fit.output.probabilities), right(fit), fit)
    return fitted.confidence(evidence(fitted.reads, u, test.output))


def measured(confidence: Array, correct: Array) -> dict[str, float]:
    return {
        "ECE": ece(confidence, correct),
        "ACE": ace(confidence, correct),
        "Brier": brier(confidence, correct),
        "NLL": nll(confidence, correct),
        "PRR": prr(correct, -confidence),
        "AUROC": error_roc_auc(correct, -confidence),
        "accuracy": float(correct.mean()),
    }


def measure(predictions: Predictions) -> dict[str, dict[str, Spread]]:
    """What each calibrator leaves, by its name."""
    parts = splits(predictions)
    values: dict[str, list[dict[str, float]]] = {name: [] for name in CALIBRATORS}
    rng = np.random.default_rng(SEED)
    for part in parts:
        fit, test = predictions.rows.rows(part.fit), predictions.rows.rows(part.test)
        for name, recipe in CALIBRATORS.items():
            confidence = calibrated(recipe, fit, test)
            floor = noise_floor(ece, confidence, draws=-(-DRAWS // len(parts)), rng=rng)
            values[name].append({**measured(confidence, right(test)), "floor": floor})
    return {name: over_splits(rows) for name, rows in values.items()}
