"""Scores from generated text and sampling, and scores as confidences, under their names in METHODS."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.uncertainty import (
    consistency,
    feature_scores,
    label_sets,
    options,
    pairing,
    score_confidence,
    self_report,
    token_entropy,
    tokens,
    tournament,
    trace,
)


def parse_joint_confidences(text: Any, labels: Any = None) -> dict[str, Any]:
    read = self_report.parse_joint_confidences(text, labels)
    return {"confidences": read.confidences, "unknown": list(read.unknown)}


def linear_sum(fit_features: Any, features: Any) -> Any:
    return feature_scores.FeatureSum().fit(fit_features).uncertainty(features)


def trace_logistic(fit_features: Any, fit_correct: Any, features: Any, C: float = 1.0) -> dict[str, Any]:
    fitted = feature_scores.FeatureLogistic(C=C).fit(fit_features, fit_correct)
    return {"coef": fitted.coef, "intercept": fitted.intercept, "uncertainty": fitted.uncertainty(features)}


def trace_ridge(fit_features: Any, fit_correct: Any, features: Any, alpha: float = 1.0) -> dict[str, Any]:
    fitted = feature_scores.FeatureRidge(alpha=alpha).fit(fit_features, fit_correct)
    return {"coef": fitted.coef, "intercept": fitted.intercept, "uncertainty": fitted.uncertainty(features)}


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda *values, **named: asdict(function(*values, **named))


def as_lists(function: Callable[..., list[pairing.Pair]]) -> Callable[..., list[list[int]]]:
    return lambda *values, **named: [list(pair) for pair in function(*values, **named)]


ENTRIES: dict[str, Callable[..., Any]] = {
    "scores.avg_neg_logprob": tokens.avg_neg_logprob,
    "scores.max_neg_logprob": tokens.max_neg_logprob,
    "scores.perplexity": tokens.perplexity,
    "scores.improbability": tokens.improbability,
    "scores.g_nll": tokens.greedy_neg_loglikelihood,
    "scores.avg_token_prob": tokens.avg_token_prob,
    "scores.sequence_confidence": tokens.sequence_confidence,
    "scores.token_entropy": token_entropy.token_entropy,
    "scores.token_entropy_sequence": token_entropy.token_entropy_sequence,
    "scores.mean_over_predicted_labels": label_sets.mean_over_predicted_labels,
    "scores.eigv_laplacian_jaccard": consistency.eigv_laplacian_jaccard,
    "scores.combined": consistency.combined,
    "scores.self_consistency": as_dict(options.self_consistency),
    "scores.semantic_entropy": as_dict(options.semantic_entropy),
    "scores.sample_frequency_scores": options.sample_frequency_scores,
    "scores.parse_joint_confidences": parse_joint_confidences,
    "scores.self_verbalised": self_report.self_verbalised,
    "scores.parse_confidence_rating": self_report.parse_confidence_rating,
    "scores.trace_features": as_dict(trace.trace_features),
    "scores.linear_sum": linear_sum,
    "scores.trace_logistic": trace_logistic,
    "scores.trace_ridge": trace_ridge,
    "scores.elo_expected": tournament.expected_score,
    "scores.elo_update": tournament.update_ratings,
    "scores.elo_random_pairs": as_lists(pairing.random_pairs),
    "scores.elo_swiss_pairs": as_lists(pairing.swiss_pairs),
    "scores.elo_graph_pairs": as_lists(pairing.graph_pairs),
    "scores.elo_probability": tournament.positive_probability,
    "scores.elo_tournament": tournament.run_tournament,
    "scores.minmax_confidence": score_confidence.minmax_confidence,
    "scores.entropy_confidence": score_confidence.entropy_confidence,
}
