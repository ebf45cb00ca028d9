"""Audits from partial labels, monitors and reviewers, METHODS 9.1 to 9.4 and 9.6, as the golden vectors expect them."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from audit import (
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
    weighted_rows,
)
from policies import risk_bound
from review import adjudication
from traffic import draw


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


ENTRIES: dict[str, Callable[..., Any]] = {
    "audit.spot_check": as_dict(draw.spot_check),
    "audit.allocate": as_dict(sampling.allocate),
    "audit.label_weights": sampling.label_weights,
    "audit.completion_weights": as_dict(sampling.completion_weights),
    "audit.missing_bounds": as_dict(sampling.missing_bounds),
    "audit.weighted_mean": weighted_rows.weighted_mean,
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
    "audit.reviewer_rates": as_dict(reviewers.reviewer_rates),
    "audit.rogan_gladen": as_dict(reviewers.rogan_gladen),
    "audit.cohen_kappa": agreement.cohen_kappa,
    "audit.fleiss_kappa": agreement.fleiss_kappa,
    "audit.krippendorff_alpha": agreement.krippendorff_alpha,
    "audit.adjudicate": as_dict(adjudication.adjudicate),
}
