"""The metrics of METHODS 5 under their names there, in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.audit.metrics import (
    calibration,
    correlation,
    discrimination,
    groups,
    optimal_coverage,
    prediction_sets,
    predictive_quality,
    selective,
    top_k,
)


def as_lists(value: Any) -> Any:
    """A result as plain mappings and lists; None is what does not apply, and is left out."""
    if isinstance(value, list):
        return [as_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: as_lists(item) for key, item in value.items() if item is not None}
    if hasattr(value, "__dataclass_fields__"):
        return as_lists(asdict(value))
    return value.tolist() if hasattr(value, "tolist") else value


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda **arguments: as_lists(function(**arguments))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "prr": selective.prr,
    "prr_areas": selective.prr_areas,
    "prr_grid": selective.prr_grid,
    "rc_curve": selective.rc_curve,
    "rc_auc": selective.rc_auc,
    "n_rc_auc": selective.n_rc_auc,
    "e_aurc": selective.e_aurc,
    "e_auopt_rc": optimal_coverage.e_auopt_rc,
    "excess_auopt_rc": optimal_coverage.excess_auopt_rc,
    "trust_index": optimal_coverage.trust_index,
    "rejection_report": optimal_coverage.rejection_report,
    "macro_f1": predictive_quality.macro_f1,
    "macro_f1_multilabel": predictive_quality.macro_f1_multilabel,
    "label_buckets": predictive_quality.label_buckets,
    "macro_f1_by_bucket": predictive_quality.macro_f1_by_bucket,
    "jaccard": predictive_quality.jaccard,
    "spearman": correlation.spearman,
    "spearman_per_label": correlation.spearman_per_label,
    "spearman_pooled": correlation.spearman_pooled,
    "kendall_tau_b": correlation.kendall_tau_b,
    "benefit_z": correlation.benefit_z,
    "roc_auc": discrimination.roc_auc,
    "au_prc": discrimination.au_prc,
    "error_roc_auc": discrimination.error_roc_auc,
    "error_au_prc": discrimination.error_au_prc,
    "calibration_bins": calibration.calibration_bins,
    "ece": calibration.ece,
    "mce": calibration.mce,
    "ace": calibration.ace,
    "brier": calibration.brier,
    "nll": calibration.nll,
    "ece_brier_mean": calibration.ece_brier_mean,
    "citl": calibration.citl,
    "c_slope": calibration.c_slope,
    "ece_plus": calibration.ece_plus,
    "ece_at_k": top_k.ece_at_k,
    "ace_at_k": top_k.ace_at_k,
    "brier_at_k": top_k.brier_at_k,
    "nll_at_k": top_k.nll_at_k,
    "precision_at_k": top_k.precision_at_k,
    "set_metrics": prediction_sets.set_metrics,
    "groupwise": groups.groupwise,
}

ENTRIES: dict[str, Callable[..., Any]] = {f"metrics.{name}": plain(function) for name, function in FUNCTIONS.items()}
