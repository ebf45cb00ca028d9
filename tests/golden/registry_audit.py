"""Audits from partial labels, monitors and reviewers, METHODS 9.1 to 9.6, as the golden vectors expect them."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.audit.metrics import (
    agreement,
    assisted_mean,
    evidence,
    exchangeability,
    intervals,
    label_shift,
    resampling,
    reviewers,
    risk_monitor,
    risk_sequence,
    sampling,
    score_drift,
    weighted_calibration,
    weighted_discrimination,
    weighted_quality,
    weighted_rows,
    weighted_selective,
    weighted_sets,
    weighted_top_k,
)
from demur.policies import adaptive, review_price, review_rate, risk_bound, tracked_limit
from demur.review import adjudication
from demur.traffic import draw


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


ENTRIES: dict[str, Callable[..., Any]] = {
    "audit.spot_check": as_dict(draw.spot_check),
    "audit.allocate": as_dict(sampling.allocate),
    "audit.label_weights": sampling.label_weights,
    "audit.completion_weights": as_dict(sampling.completion_weights),
    "audit.missing_bounds": as_dict(sampling.missing_bounds),
    "audit.weighted_mean": weighted_rows.weighted_mean,
    "audit.weighted_selective_risk": as_dict(weighted_selective.weighted_selective_risk),
    "audit.weighted_bins": lambda **arguments: [asdict(b) for b in weighted_calibration.weighted_bins(**arguments)],
    "audit.weighted_ece": weighted_calibration.weighted_ece,
    "audit.weighted_ace": weighted_calibration.weighted_ace,
    "audit.weighted_brier": weighted_calibration.weighted_brier,
    "audit.weighted_nll": weighted_calibration.weighted_nll,
    "audit.weighted_citl": weighted_calibration.weighted_citl,
    "audit.weighted_c_slope": weighted_calibration.weighted_c_slope,
    "audit.weighted_at_k": weighted_top_k.weighted_at_k,
    "audit.weighted_roc_auc": weighted_discrimination.weighted_roc_auc,
    "audit.weighted_au_prc": weighted_discrimination.weighted_au_prc,
    "audit.weighted_error_roc_auc": weighted_discrimination.weighted_error_roc_auc,
    "audit.weighted_error_au_prc": weighted_discrimination.weighted_error_au_prc,
    "audit.weighted_rc_auc": weighted_selective.weighted_rc_auc,
    "audit.weighted_n_rc_auc": weighted_selective.weighted_n_rc_auc,
    "audit.weighted_prr": weighted_selective.weighted_prr,
    "audit.weighted_macro_f1": weighted_quality.weighted_macro_f1,
    "audit.weighted_set_metrics": as_dict(weighted_sets.weighted_set_metrics),
    "audit.aipw_mean": as_dict(assisted_mean.aipw_mean),
    "audit.effective_n": intervals.effective_n,
    "audit.hajek_interval": as_dict(intervals.hajek_interval),
    "audit.wilson": as_dict(intervals.wilson),
    "audit.clopper_pearson": as_dict(intervals.clopper_pearson),
    "audit.labels_needed": risk_bound.labels_needed,
    "audit.evidence": as_dict(evidence.evidence),
    "audit.bootstrap": as_dict(resampling.bootstrap),
    "audit.risk_monitor": as_dict(risk_monitor.risk_monitor),
    "audit.risk_sequence": as_dict(risk_sequence.risk_sequence),
    "audit.running_risk_sequence": as_dict(risk_sequence.running_risk_sequence),
    "audit.psi": as_dict(score_drift.psi),
    "audit.ks": as_dict(score_drift.ks),
    "audit.conformal_p_values": exchangeability.conformal_p_values,
    "audit.exchangeability_martingale": as_dict(exchangeability.exchangeability_martingale),
    "audit.label_shift": as_dict(label_shift.label_shift),
    "audit.price_run": as_dict(review_price.price_run),
    "audit.rate_run": as_dict(review_rate.rate_run),
    "audit.ipw_aci": adaptive.ipw_adaptive_alphas,
    "audit.threshold_track": as_dict(tracked_limit.threshold_track),
    "audit.reviewer_rates": as_dict(reviewers.reviewer_rates),
    "audit.rogan_gladen": as_dict(reviewers.rogan_gladen),
    "audit.cohen_kappa": agreement.cohen_kappa,
    "audit.fleiss_kappa": agreement.fleiss_kappa,
    "audit.krippendorff_alpha": agreement.krippendorff_alpha,
    "audit.adjudicate": as_dict(adjudication.adjudicate),
}
