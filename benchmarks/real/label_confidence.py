"""The same for labels that may hold together: the k most probable labels of a row, before and after calibration."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.real.confidence import BEFORE, DRAWS
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.predictions import Index, Predictions
from benchmarks.real.splits import SEED, splits
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.audit.metrics.top_k import TopK
from demur.uncertainty.checks import Array, Mask
from demur.uncertainty.isotonic import Interpolation
from demur.uncertainty.label_confidence import TopKIsotonic
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.platt import fit_platt
from demur.uncertainty.temperature import fit_binary_temperature
from demur.uncertainty.top_k import fit_top_k, in_calibrated_order, top_labels

KS = (1, 3, 5)
DEEPEST = max(KS)

Calibrated = tuple[Array, Index]
"""Probabilities [n, m] and whose they are [n, m], the labels that come first in front."""


def measure(predictions: Predictions) -> dict[str, dict[str, Spread]]:
    """What each calibrator leaves, by its name; the metrics of METHODS 5.2 at k, in 10 bins."""
    parts = splits(predictions)
    values: dict[str, list[dict[str, float]]] = {name: [] for name in CALIBRATORS}
    rng = np.random.default_rng(SEED)
    for part in parts:
        fit, test = predictions.rows.rows(part.fit), predictions.rows.rows(part.test)
        for name, calibrate in CALIBRATORS.items():
            probabilities, labels = calibrate(fit, test)
            hits = np.take_along_axis(test.truth, labels, axis=1)
            values[name].append(_measured(probabilities, hits, draws=-(-DRAWS // len(parts)), rng=rng))
    return {name: over_splits(rows) for name, rows in values.items()}


def _measured(probabilities: Array, hits: Mask, *, draws: int, rng: np.random.Generator) -> dict[str, float]:
    values: dict[str, float] = {}
    for k in KS:
        top = TopK(scores=probabilities[:, :k], hits=hits[:, :k])
        floor = noise_floor(lambda p, drawn: TopK(scores=p, hits=drawn).ece(), top.scores, draws=draws, rng=rng)
        values |= {f"ECE@{k}": top.ece(), f"floor@{k}": floor, f"ACE@{k}": top.ace()}
        values |= {f"Brier@{k}": top.brier(), f"NLL@{k}": top.nll(), f"P@{k}": top.precision()}
    first = hits[:, 0].astype(np.float64)
    return {**values, "PRR": prr(first, -probabilities[:, 0]), "AUROC": error_roc_auc(first, -probabilities[:, 0])}


def _as_it_is(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:  # noqa: ARG001 - nothing to fit
    return _first(test.output.probabilities)


def _temperature(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    """One temperature for all labels of all rows."""
    fitted = fit_binary_temperature(fit.output.logits.ravel(), fit.truth.ravel())
    return _first(fitted.of_labels(test.output.logits))


def _platt(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    """One logistic curve through the log-odds of the labels that come first."""
    labels = top_labels(fit.output.probabilities, DEEPEST)
    top, hits = (np.take_along_axis(values, labels, axis=1) for values in (fit.output.logits, fit.truth))
    return _first(fit_platt(top.ravel(), hits.ravel()).confidence(test.output.logits))


def _joint(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    """The original order breaks the ties that plateaus make."""
    return _reordered(TopKIsotonic(mode="joint", k=DEEPEST), fit, test)


def _separate(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    return _reordered(TopKIsotonic(mode="separate", k=DEEPEST), fit, test)


def _per_label(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    """All labels, since a map of its own can lift a label from below the first few."""
    return _reordered(TopKIsotonic(mode="per_label", k=fit.truth.shape[1]), fit, test)


def _without_tie_break(interpolation: Interpolation) -> Callable[[LabelledOutput, LabelledOutput], Calibrated]:
    def calibrate(fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
        """Labels sorted by nothing but their calibrated probability: of tied ones the lowest number comes first."""
        labels = top_labels(fit.output.probabilities, DEEPEST)
        top, hits = (np.take_along_axis(values, labels, axis=1) for values in (fit.output.probabilities, fit.truth))
        return _first(fit_top_k(top, hits, interpolation=interpolation).of(test.output.probabilities, labels))

    return calibrate


def _reordered(recipe: TopKIsotonic, fit: LabelledOutput, test: LabelledOutput) -> Calibrated:
    calibrator = recipe.fit(fit)
    calibrated = calibrator.of(test.output.probabilities)
    order = in_calibrated_order(calibrated)
    labels = top_labels(test.output.probabilities, calibrator.k)
    return np.take_along_axis(calibrated, order, axis=1), np.take_along_axis(labels, order, axis=1)


def _first(probabilities: Array) -> Calibrated:
    labels = top_labels(probabilities, DEEPEST)
    return np.take_along_axis(probabilities, labels, axis=1), labels


CALIBRATORS: Mapping[str, Callable[[LabelledOutput, LabelledOutput], Calibrated]] = {
    BEFORE: _as_it_is,
    "binary temperature": _temperature,
    "Platt, first five": _platt,
    "isotonic, joint": _joint,
    "isotonic, joint, no tie-break": _without_tie_break("linear"),
    "isotonic step, joint, no tie-break": _without_tie_break("step"),
    "isotonic, by rank": _separate,
    "isotonic, by label": _per_label,
}
