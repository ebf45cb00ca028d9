"""Promises, their audits and sharper confidence (METHODS 10) in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.audit.metrics import (
    assisted_risk_monitor,
    complete_blocks,
    confidence_strata,
    evidence,
    multiplicity,
    promise_tests,
    reviewers,
    sampling,
    unlabelled_risk,
)
from demur.calibration_store import clusters
from demur.policies import betting, covariate_shift, label_share, training_conditional
from demur.uncertainty import deep_knn, logit_scores


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


def label_share_control(**arguments: Any) -> dict[str, Any]:
    found = label_share.label_share_control(**arguments)
    return {"lambda": found.limit, "index": found.index, "feasible": found.feasible, "share": found.share}


ENTRIES: dict[str, Callable[..., Any]] = {
    "scores.deep_knn": deep_knn.deep_knn,
    "scores.energy": logit_scores.energy,
    "scores.max_logit": logit_scores.max_logit,
    "decide.missed_labels": as_dict(label_share.missed_labels),
    "decide.label_share_control": label_share_control,
    "decide.pac_rank": as_dict(training_conditional.pac_rank),
    "decide.pac_quantile": training_conditional.pac_quantile,
    "decide.merge_duplicates": clusters.merge_duplicates,
    "decide.split_by_cluster": clusters.split_by_cluster,
    "decide.one_per_cluster": clusters.one_per_cluster,
    "decide.betting_p_value": betting.betting_p_value,
    "decide.betting_upper_bound": betting.betting_upper_bound,
    "decide.ltt_betting": as_dict(betting.ltt_betting),
    "decide.shift_weights": as_dict(covariate_shift.shift_weights),
    "decide.weighted_conformal_quantile": covariate_shift.weighted_conformal_quantile,
    "audit.fit_spread": as_dict(promise_tests.fit_spread),
    "audit.judge_count": as_dict(promise_tests.judge_count),
    "audit.judge_mean": as_dict(promise_tests.judge_mean),
    "audit.holm": as_dict(multiplicity.holm),
    "audit.verdict": as_dict(multiplicity.verdict_of_parts),
    "audit.confidence_strata": as_dict(confidence_strata.confidence_strata),
    "audit.missing_verdict": as_dict(sampling.missing_verdict),
    "audit.corrected_rate": as_dict(reviewers.corrected_rate),
    "audit.expected_risk": as_dict(unlabelled_risk.expected_risk),
    "audit.atc": as_dict(unlabelled_risk.average_thresholded_confidence),
    "audit.ranking_evidence": as_dict(evidence.ranking_evidence),
    "audit.complete_blocks": as_dict(complete_blocks.complete_blocks),
    "audit.adaptive_spot_check": as_dict(sampling.adaptive_spot_check),
    "audit.assisted_risk_monitor": as_dict(assisted_risk_monitor.assisted_risk_monitor),
}
