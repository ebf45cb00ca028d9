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
from demur.uncertainty import (
    class_calibration,
    correctness_model,
    deep_knn,
    label_correctness,
    logit_scores,
    venn_abers,
)


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


def vector_scaling(fit_probs: Any, fit_labels: Any, probs: Any, **settings: Any) -> dict[str, Any]:
    fitted = class_calibration.fit_vector_scaling(fit_probs, fit_labels, **settings)
    return {"w": fitted.w, "b": fitted.b, "probabilities": fitted.of_classes(probs)}


def dirichlet(fit_probs: Any, fit_labels: Any, probs: Any, **settings: Any) -> dict[str, Any]:
    fitted = class_calibration.fit_dirichlet(fit_probs, fit_labels, **settings)
    return {"w": fitted.w, "b": fitted.b, "probabilities": fitted.of_classes(probs)}


def venn_abers_interval(fit_scores: Any, fit_targets: Any, scores: Any) -> dict[str, Any]:
    return asdict(venn_abers.fit_venn_abers(fit_scores, fit_targets).interval(scores))


def correctness(
    fit_probs: Any,
    fit_correct: Any,
    probs: Any,
    fit_predicted: Any = None,
    predicted: Any = None,
    weights: Any = None,
    **settings: Any,
) -> dict[str, Any]:
    fitted = correctness_model.CorrectnessRecipe(**settings).fit(fit_probs, fit_correct, fit_predicted, weights)
    return {
        "kind": fitted.kind,
        "blocks": list(fitted.blocks),
        "labels": fitted.labels.tolist(),
        "n_columns": len(fitted.coef),
        "confidence": fitted.confidence(probs, predicted),
    }


def correctness_crossfit(
    probs: Any, correct: Any, folds: Any, predicted: Any = None, **settings: Any
) -> dict[str, Any]:
    recipe = correctness_model.CorrectnessRecipe(**settings)
    return asdict(correctness_model.correctness_crossfit(probs, correct, folds, recipe, predicted))


def correctness_multilabel(fit_probs: Any, fit_targets: Any, probs: Any, **settings: Any) -> dict[str, Any]:
    fitted = label_correctness.LabelCorrectnessRecipe(**settings).fit(fit_probs, fit_targets)
    return {"kind": fitted.kind, "labels": fitted.labels.tolist(), "probability": fitted.probability(probs)}


def label_share_control(**arguments: Any) -> dict[str, Any]:
    found = label_share.label_share_control(**arguments)
    return {"lambda": found.limit, "index": found.index, "feasible": found.feasible, "share": found.share}


ENTRIES: dict[str, Callable[..., Any]] = {
    "scores.deep_knn": deep_knn.deep_knn,
    "scores.energy": logit_scores.energy,
    "scores.max_logit": logit_scores.max_logit,
    "calibrators.vector_scaling": vector_scaling,
    "calibrators.dirichlet": dirichlet,
    "calibrators.venn_abers": venn_abers_interval,
    "calibrators.correctness": correctness,
    "calibrators.correctness_crossfit": correctness_crossfit,
    "calibrators.correctness_multilabel": correctness_multilabel,
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
