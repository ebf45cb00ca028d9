"""The functions that are built so far, under their names in METHODS, in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from audit import calibration, discrimination, selective
from policies import conformal, threshold
from tests.golden.registry_classifiers import ENTRIES as CLASSIFIERS
from tests.golden.registry_generations import ENTRIES as GENERATIONS


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


REGISTRY: dict[str, Callable[..., Any]] = {
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
    **CLASSIFIERS,
    **GENERATIONS,
}
