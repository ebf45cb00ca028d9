"""Whatever is put in the place of an argument of a function about promises: our own error."""

from typing import Any

import numpy as np
import pytest

from demur.traffic.draw import InvalidDraw
from demur.uncertainty.checks import InvalidInput
from tests.golden.registry_promises import ENTRIES
from tests.golden.test_refusals import NEVER

GOOD: dict[str, dict[str, Any]] = {
    "scores.deep_knn": {
        "train_features": [[1.0, 0.0], [0.0, 1.0]],
        "features": [[1.0, 1.0], [0.0, 2.0]],
        "k": 1,
        "train_labels": ["a", "b"],
        "predicted": ["a", "b"],
        "leave_one_out": False,
    },
    "scores.energy": {"logits": [[1.0, 2.0]], "temperature": 1.0},
    "scores.max_logit": {"logits": [[1.0, 2.0]]},
    "calibrators.vector_scaling": {
        "fit_probs": [[0.9, 0.1], [0.2, 0.8]],
        "fit_labels": [0, 1],
        "probs": [[0.6, 0.4]],
        "penalty": 0.1,
        "floor": 1e-6,
    },
    "calibrators.dirichlet": {
        "fit_probs": [[0.9, 0.1], [0.2, 0.8]],
        "fit_labels": [0, 1],
        "probs": [[0.6, 0.4]],
        "off_diagonal": 0.1,
        "intercept": 0.1,
        "diagonal": 0.1,
        "floor": 1e-6,
    },
    "calibrators.venn_abers": {"fit_scores": [0.1, 0.9], "fit_targets": [0, 1], "scores": [0.5]},
    "calibrators.correctness": {
        "fit_probs": [[0.9, 0.1], [0.2, 0.8]],
        "fit_correct": [1, 0],
        "probs": [[0.6, 0.4]],
        "fit_predicted": [0, 1],
        "predicted": [1],
        "weights": [1, 2],
        "blocks": ["sorted"],
        "C": 1.0,
        "top": 10,
        "max_vector": 50,
        "min_label_rows": 1,
        "min_events": 1,
        "floor": 1e-6,
    },
    "calibrators.correctness_crossfit": {
        "probs": [[0.9, 0.1], [0.2, 0.8]],
        "correct": [1, 0],
        "folds": ["a", "b"],
        "predicted": [0, 1],
        "blocks": ["label"],
        "C": 1.0,
        "top": 10,
        "max_vector": 50,
        "min_label_rows": 1,
        "min_events": 1,
        "floor": 1e-6,
    },
    "calibrators.correctness_multilabel": {
        "fit_probs": [[0.9, 0.1], [0.2, 0.8]],
        "fit_targets": [[1, 0], [0, 1]],
        "probs": [[0.6, 0.4]],
        "C": 1.0,
        "min_label_events": 1,
        "min_events": 1,
        "floor": 1e-6,
    },
    "decide.missed_labels": {"option_scores": [[0.2, 0.5]], "targets": [[1, 0]], "lambdas": [0.2, 0.5]},
    "decide.label_share_control": {
        "missed": [[1, 0]],
        "held": [1],
        "lambdas": [0.1, 0.2],
        "alpha": 0.1,
        "max_labels": 2,
    },
    "decide.pac_rank": {"n": 30, "alpha": 0.1, "delta": 0.1},
    "decide.pac_quantile": {"scores": [0.1, 0.2], "alpha": 0.5, "delta": 0.5},
    "decide.merge_duplicates": {"clusters": ["a", None], "inputs": ["x", "y"]},
    "decide.split_by_cluster": {"clusters": ["a", "b"], "key": "k", "shares": [0.5, 0.5], "purpose": "p"},
    "decide.one_per_cluster": {"clusters": ["a", "b"], "record_ids": ["1", "2"], "key": "k", "purpose": "p"},
    "decide.betting_p_value": {"losses": [0.1, 0.2], "target": 0.3, "delta": 0.05},
    "decide.betting_upper_bound": {"losses": [0.1, 0.2], "delta": 0.05},
    "decide.ltt_betting": {
        "u": [0.1, 0.2],
        "losses": [0, None],
        "thresholds": [0.1],
        "target_risk": 0.1,
        "delta": 0.05,
        "method": "bonferroni",
        "weights": [1, 0],
        "max_weight": 2,
    },
    "decide.shift_weights": {
        "reference_features": [[1.0, 2.0], [0.0, 1.0]],
        "current_features": [[1.0, 1.0]],
        "C": 1.0,
        "max_weight": 20.0,
        "min_effective": 1,
    },
    "decide.weighted_conformal_quantile": {
        "scores": [0.1, 0.2],
        "weights": [1, 2],
        "test_weights": [1.0],
        "alpha": 0.3,
    },
    "audit.fit_spread": {"fit_n": 20, "alpha": 0.1, "delta": 0.05, "rank": 19},
    "audit.judge_count": {
        "misses": 1,
        "labels": 20,
        "target": 0.1,
        "delta": 0.05,
        "promise": "average",
        "fit_n": 20,
        "fit_rank": 19,
    },
    "audit.judge_mean": {
        "estimate": 0.1,
        "standard_error": 0.01,
        "target": 0.1,
        "delta": 0.05,
        "fit_n": 20,
        "loss_variance": 0.1,
    },
    "audit.holm": {"p_values": [0.01, None], "delta": 0.05},
    "audit.verdict": {"p_broken": [0.5], "p_kept": [0.5], "delta": 0.05},
    "audit.confidence_strata": {
        "confidence": [0.5, None],
        "selected": [1, 1],
        "completed": [1, 0],
        "strata": ["a", "b"],
        "n_bins": 5,
        "min_selected": 1,
        "min_completed": 1,
    },
    "audit.missing_verdict": {
        "status": "kept",
        "lower": 0.1,
        "upper": 0.2,
        "target": 0.15,
        "share_missing": 0.1,
        "max_missing": 0.05,
    },
    "audit.corrected_rate": {
        "rate": 0.06,
        "n": 400,
        "sensitivity": 0.9,
        "n_sensitivity": 60,
        "specificity": 0.97,
        "n_specificity": 200,
        "target": 0.1,
        "delta": 0.05,
        "min_rereviews": 20,
    },
    "audit.expected_risk": {"confidence": [0.9, 0.8], "answered": [1, 0], "drift_p_values": [0.5], "delta": 0.05},
    "audit.atc": {"reference_confidence": [0.5, 0.6], "reference_correct": [0, 1], "confidence": [0.5]},
    "audit.ranking_evidence": {"outcome": [1, None], "weights": [1, 0], "probability": [1, 0.5], "min_events": 5},
    "audit.complete_blocks": {"blocks": [1, 2], "drawn": [1, 1], "completed": [1, 0], "late_after": 1},
    "audit.adaptive_spot_check": {
        "confidence": [0.5],
        "reference_confidence": [0.5, 0.9],
        "rate": 0.1,
        "floor": 0.05,
    },
    "audit.assisted_risk_monitor": {
        "errors": [None, 0],
        "labelled": [0, 1],
        "probability": [0.2, 0.2],
        "predicted": [0.1, 0.1],
        "target": 0.1,
        "floor": 0.1,
        "ceiling": 0.2,
        "delta": 0.05,
        "direction": "above",
        "start": "any",
        "stakes": [0.5],
    },
}
"""Arguments that are taken as they are."""

TAKEN: dict[tuple[str, str], Any] = {
    **{("calibrators.correctness", name): [None] for name in ("fit_predicted", "predicted", "weights")},
    ("calibrators.correctness", "blocks"): [[]],
    ("calibrators.correctness_crossfit", "predicted"): [None],
    ("calibrators.correctness_crossfit", "blocks"): [[]],
    ("audit.fit_spread", "rank"): [None],
    ("audit.judge_count", "fit_rank"): [None],
    ("audit.judge_mean", "loss_variance"): [None],
    ("audit.judge_mean", "estimate"): [-1],
    ("audit.judge_mean", "target"): [-1],  # with a variance of its own
    ("audit.holm", "p_values"): [[None]],
    **{
        (f"decide.{name}", text): ["x"]
        for name in ("split_by_cluster", "one_per_cluster")
        for text in ("key", "purpose")
    },
    ("decide.split_by_cluster", "clusters"): [["a"], ["0.5"], np.array(["0.5"], dtype=object)],
    ("audit.confidence_strata", "strata"): [None],
    ("audit.expected_risk", "answered"): [None],
    ("audit.expected_risk", "drift_p_values"): [None, [None]],
    ("audit.complete_blocks", "late_after"): [None],
    ("audit.assisted_risk_monitor", "stakes"): [None],
}
"""What is good all the same in the place of an argument."""


def test_every_function_is_here() -> None:
    assert GOOD.keys() == ENTRIES.keys()


@pytest.mark.parametrize("fn", GOOD)
def test_nothing_else_than_our_own_error(fn: str) -> None:
    ENTRIES[fn](**GOOD[fn])
    for name in GOOD[fn]:
        for bad in NEVER:
            if any(type(bad) is type(good) and bad == good for good in TAKEN.get((fn, name), [])):
                continue
            with pytest.raises((InvalidInput, InvalidDraw)):
                ENTRIES[fn](**{**GOOD[fn], name: bad})


@pytest.mark.parametrize(
    ("fn", "changes"),
    [
        ("scores.deep_knn", {"train_labels": None}),  # one of the two without the other
        ("scores.deep_knn", {"features": [[1.0]]}),
        ("scores.deep_knn", {"leave_one_out": True, "features": [[1.0, 0.0]], "predicted": ["a"]}),
        ("calibrators.vector_scaling", {"fit_labels": [0]}),
        ("calibrators.vector_scaling", {"probs": [[0.2, 0.3, 0.5]]}),
        ("calibrators.vector_scaling", {"floor": 0.5}),
        ("calibrators.dirichlet", {"fit_labels": [0, 2]}),
        ("calibrators.venn_abers", {"fit_targets": [0.5, 1]}),
        ("calibrators.correctness", {"blocks": ["label", "label"]}),
        ("calibrators.correctness", {"weights": [0, 0]}),
        ("calibrators.correctness", {"probs": [[0.2, 0.3, 0.5]], "predicted": None}),
        ("calibrators.correctness_crossfit", {"folds": ["a", "a"]}),
        ("calibrators.correctness_multilabel", {"fit_targets": [[1, 0]]}),
        ("calibrators.correctness_multilabel", {"probs": [[0.5]]}),
        ("decide.missed_labels", {"lambdas": [0.2, 0.2]}),
        ("decide.missed_labels", {"targets": [[1]]}),
        ("decide.label_share_control", {"held": [3]}),
        ("decide.label_share_control", {"missed": [[0, 1]]}),
        ("decide.label_share_control", {"missed": [[0.5, 0]]}),
        ("audit.judge_count", {"fit_n": None, "fit_rank": None}),
        ("audit.judge_count", {"promise": "fit", "fit_n": None}),
        ("audit.verdict", {"p_kept": [None]}),
        ("audit.confidence_strata", {"selected": [0, 1], "completed": [1, 0]}),
        ("audit.confidence_strata", {"strata": ["a"]}),
        ("audit.ranking_evidence", {"probability": [1, 0]}),
        ("audit.complete_blocks", {"blocks": [2, 1]}),
        ("audit.complete_blocks", {"blocks": [0.5, 1]}),
        ("audit.adaptive_spot_check", {"floor": 0.2}),
        ("audit.assisted_risk_monitor", {"start": "each"}),
        ("decide.merge_duplicates", {"clusters": [1.5, None]}),
        ("decide.one_per_cluster", {"clusters": ["a", None]}),
        ("decide.ltt_betting", {"max_weight": None}),
        ("decide.ltt_betting", {"weights": None, "losses": [0, 0]}),
        ("decide.ltt_betting", {"losses": [0]}),
        ("decide.shift_weights", {"current_features": [[1.0]]}),
    ],
)
def test_arguments_that_do_not_fit_each_other(fn: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ENTRIES[fn](**{**GOOD[fn], **changes})
