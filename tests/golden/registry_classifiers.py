"""Scores of classifiers and calibrators (METHODS 1.1-1.3 and 3) as the golden vectors call them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from demur.uncertainty import class_probability, label_probability, top_k
from demur.uncertainty.beta import fit_beta
from demur.uncertainty.checks import InvalidInput, finite, outcomes, unit_interval
from demur.uncertainty.histogram_binning import fit_histogram
from demur.uncertainty.hybrid import fit_hybrid
from demur.uncertainty.isolation_forest import isolation_c, trees_from
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.local_outlier_factor import fit_local_outlier_factor
from demur.uncertainty.mahalanobis import fit_mahalanobis, fit_relative_mahalanobis
from demur.uncertainty.min_max import fit_min_max
from demur.uncertainty.platt import fit_platt
from demur.uncertainty.temperature import fit_binary_temperature, fit_temperature


def mahalanobis(train_features: Any, train_labels: Any, features: Any, shrinkage: float = 0.0) -> Any:
    return fit_mahalanobis(train_features, train_labels, shrinkage=shrinkage).distance(features)


def relative_mahalanobis(train_features: Any, train_labels: Any, features: Any, shrinkage: float = 0.0) -> Any:
    return fit_relative_mahalanobis(train_features, train_labels, shrinkage=shrinkage).distance(features)


def lof(train_features: Any, features: Any, k: int = 20) -> Any:
    return fit_local_outlier_factor(train_features, k=k).factor(features)


def isolation_forest(trees: Any, subsample_size: int, features: Any) -> Any:
    return trees_from(trees, subsample_size).score(features)


def huq(
    epistemic: Any,
    aleatoric: Any,
    reference_epistemic: Any = None,
    reference_aleatoric: Any = None,
    **settings: Any,
) -> Any:
    if (reference_epistemic is None) != (reference_aleatoric is None):
        raise InvalidInput("both references are needed, or neither")
    reference = (epistemic, aleatoric) if reference_epistemic is None else (reference_epistemic, reference_aleatoric)
    return fit_hybrid(*reference, **settings).mix(epistemic, aleatoric)


def isotonic(fit_scores: Any, fit_targets: Any, scores: Any, weights: Any = None, interpolation: Any = "linear") -> Any:
    y = outcomes("fit_targets", fit_targets)  # METHODS knows outcomes only; ours takes shares as well
    fitted = fit_isotonic(fit_scores, y, weights=weights, interpolation=interpolation)
    return fitted.confidence(finite("scores", scores))


def platt(fit_scores: Any, fit_targets: Any, scores: Any, smoothing: bool = True) -> dict[str, Any]:
    fitted = fit_platt(fit_scores, fit_targets, smoothing=smoothing)
    return {"a": fitted.a, "b": fitted.b, "probabilities": fitted.confidence(finite("scores", scores))}


def temperature_multiclass(fit_logits: Any, fit_labels: Any, logits: Any, **limits: float) -> dict[str, Any]:
    fitted = fit_temperature(fit_logits, fit_labels, **limits)
    z = finite("logits", logits, ndim=2)
    if z.shape[1] != np.shape(fit_logits)[1]:
        raise InvalidInput("logits and fit_logits have different classes")
    probabilities = fitted.of_classes(z)
    return {"temperature": fitted.temperature, "probabilities": probabilities}


def temperature_binary(fit_logits: Any, fit_targets: Any, logits: Any, **limits: float) -> dict[str, Any]:
    fitted = fit_binary_temperature(fit_logits, fit_targets, **limits)
    return {"temperature": fitted.temperature, "probabilities": fitted.of_labels(finite("logits", logits))}


def beta_calibration(fit_probs: Any, fit_targets: Any, probs: Any, eps: float = 1e-12) -> dict[str, Any]:
    fitted = fit_beta(fit_probs, fit_targets, eps=eps)
    probabilities = fitted.confidence(unit_interval("probs", probs))
    return {"a": fitted.a, "b": fitted.b, "c": fitted.c, "probabilities": probabilities}


def histogram_binning(fit_probs: Any, fit_targets: Any, probs: Any, **settings: Any) -> Any:
    return fit_histogram(fit_probs, fit_targets, **settings).confidence(unit_interval("probs", probs))


def topk_isotonic(fit_probs: Any, fit_hits: Any, probs: Any, **settings: Any) -> Any:
    return top_k.fit_top_k(fit_probs, fit_hits, **settings).of(unit_interval("probs", probs, ndim=2))


def minmax_squash(fit_scores: Any, scores: Any) -> Any:
    return fit_min_max(fit_scores).confidence(finite("scores", scores))


ENTRIES: dict[str, Callable[..., Any]] = {
    "scores.sr": class_probability.softmax_response,
    "scores.margin": class_probability.margin,
    "scores.smp": class_probability.sampled_max_probability,
    "scores.ent": class_probability.entropy,
    "scores.ent_mc": class_probability.mc_entropy,
    "scores.pv": class_probability.probability_variance,
    "scores.bald": class_probability.bald,
    "scores.binary_entropy": label_probability.binary_entropy,
    "scores.binary_entropy_sample": label_probability.binary_entropy_sample,
    "scores.mahalanobis": mahalanobis,
    "scores.relative_mahalanobis": relative_mahalanobis,
    "scores.lof": lof,
    "scores.isolation_c": isolation_c,
    "scores.isolation_forest": isolation_forest,
    "scores.huq": huq,
    "calibrators.isotonic": isotonic,
    "calibrators.platt": platt,
    "calibrators.temperature_multiclass": temperature_multiclass,
    "calibrators.temperature_binary": temperature_binary,
    "calibrators.beta_calibration": beta_calibration,
    "calibrators.histogram_binning": histogram_binning,
    "calibrators.topk_isotonic": topk_isotonic,
    "calibrators.crossfit_isotonic": top_k.crossfit_isotonic,
    "calibrators.minmax_squash": minmax_squash,
}
