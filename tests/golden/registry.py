"""The functions that are built so far, under their names in METHODS, in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from audit import calibration, discrimination, selective
from policies import conformal, threshold
from tests.golden import registry_decisions
from uncertainty import class_probability
from uncertainty.checks import finite
from uncertainty.isotonic import fit_isotonic
from uncertainty.mahalanobis import fit_mahalanobis
from uncertainty.platt import fit_platt


def mahalanobis(train_features: Any, train_labels: Any, features: Any, shrinkage: float = 0.0) -> Any:
    return fit_mahalanobis(train_features, train_labels, shrinkage=shrinkage).distance(features)


def isotonic(fit_scores: Any, fit_targets: Any, scores: Any, weights: Any = None, interpolation: Any = "linear") -> Any:
    fitted = fit_isotonic(fit_scores, fit_targets, weights=weights, interpolation=interpolation)
    return fitted.confidence(finite("scores", scores))


def platt(fit_scores: Any, fit_targets: Any, scores: Any, smoothing: bool = True) -> dict[str, Any]:
    fitted = fit_platt(fit_scores, fit_targets, smoothing=smoothing)
    return {"a": fitted.a, "b": fitted.b, "probabilities": fitted.confidence(finite("scores", scores))}


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


REGISTRY: dict[str, Callable[..., Any]] = {
    "scores.sr": class_probability.softmax_response,
    "scores.margin": class_probability.margin,
    "scores.smp": class_probability.sampled_max_probability,
    "scores.ent": class_probability.entropy,
    "scores.ent_mc": class_probability.mc_entropy,
    "scores.pv": class_probability.probability_variance,
    "scores.bald": class_probability.bald,
    "scores.mahalanobis": mahalanobis,
    "calibrators.isotonic": isotonic,
    "calibrators.platt": platt,
    "decide.threshold_at_rejection_rate": as_dict(threshold.threshold_at_rejection_rate),
    "decide.threshold_at_target_risk": as_dict(threshold.threshold_at_target_risk),
    "decide.conformal_quantile": conformal.conformal_quantile,
    "decide.conformal_sets": conformal.conformal_sets,
    "metrics.prr": selective.prr,
    "metrics.prr_areas": as_dict(selective.prr_areas),
    "metrics.rc_curve": as_dict(selective.rc_curve),
    "metrics.rc_auc": selective.rc_auc,
    "metrics.ece": calibration.ece,
    "metrics.calibration_bins": lambda **arguments: [asdict(b) for b in calibration.calibration_bins(**arguments)],
    "metrics.brier": calibration.brier,
    "metrics.roc_auc": discrimination.roc_auc,
    "metrics.error_roc_auc": discrimination.error_roc_auc,
    **registry_decisions.ENTRIES,
}
