"""Scores as functions of arrays: [n] numbers, higher when the model is less sure.

* Of probabilities [n, C]: `softmax_response`, `entropy`, `margin`; where labels hold together, `binary_entropy` [n, L]
  and `binary_entropy_sample`.
* Of repeated passes [n, T, C]: `sampled_max_probability`, `mc_entropy`, `probability_variance`, `bald`.
* Of embeddings [n, d]: `fit_mahalanobis` and `fit_relative_mahalanobis` return an object with `distance`,
  `fit_local_outlier_factor` one with `factor`, and `fit_isolation_forest` one with `score`, of other rows; so does
  `trees_from`, of trees that were grown elsewhere. `deep_knn` needs no fit.
* Of raw logits [n, C]: `energy`, `max_logit`.
* Of the tokens of one reply: `avg_neg_logprob`, `max_neg_logprob`, `perplexity`, `improbability`,
  `greedy_neg_loglikelihood`, `token_entropy`, `token_entropy_sequence`.
* Of sampled replies: `self_consistency`, `semantic_entropy`, `sample_frequency_scores`, `eigv_laplacian_jaccard`.
* Of comparisons of two rows at a time: `run_tournament`, `rating_uncertainty`.

Input that breaks a rule of a formula raises `ValueError`; what is undefined is NaN.
"""

from demur.uncertainty.class_probability import (
    bald,
    entropy,
    margin,
    mc_entropy,
    probability_variance,
    sampled_max_probability,
    softmax_response,
)
from demur.uncertainty.consistency import eigv_laplacian_jaccard
from demur.uncertainty.deep_knn import deep_knn
from demur.uncertainty.isolation_forest import fit_isolation_forest, trees_from
from demur.uncertainty.label_probability import binary_entropy, binary_entropy_sample
from demur.uncertainty.local_outlier_factor import fit_local_outlier_factor
from demur.uncertainty.logit_scores import energy, max_logit
from demur.uncertainty.mahalanobis import fit_mahalanobis, fit_relative_mahalanobis
from demur.uncertainty.options import sample_frequency_scores, self_consistency, semantic_entropy
from demur.uncertainty.token_entropy import token_entropy, token_entropy_sequence
from demur.uncertainty.tokens import (
    avg_neg_logprob,
    greedy_neg_loglikelihood,
    improbability,
    max_neg_logprob,
    perplexity,
)
from demur.uncertainty.tournament import rating_uncertainty, run_tournament

__all__ = [
    "avg_neg_logprob",
    "bald",
    "binary_entropy",
    "binary_entropy_sample",
    "deep_knn",
    "eigv_laplacian_jaccard",
    "energy",
    "entropy",
    "fit_isolation_forest",
    "fit_local_outlier_factor",
    "fit_mahalanobis",
    "fit_relative_mahalanobis",
    "greedy_neg_loglikelihood",
    "improbability",
    "margin",
    "max_logit",
    "max_neg_logprob",
    "mc_entropy",
    "perplexity",
    "probability_variance",
    "rating_uncertainty",
    "run_tournament",
    "sample_frequency_scores",
    "sampled_max_probability",
    "self_consistency",
    "semantic_entropy",
    "softmax_response",
    "token_entropy",
    "token_entropy_sequence",
    "trees_from",
]
