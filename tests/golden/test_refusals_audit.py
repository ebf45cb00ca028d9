"""Whatever is put in the place of an argument of a function for audits: our own error."""

import math
from typing import Any

import pytest

from demur.review.adjudication import InvalidOpinions
from demur.traffic.draw import InvalidDraw
from demur.uncertainty.checks import InvalidInput
from tests.golden.registry_audit import ENTRIES
from tests.golden.test_refusals import NEVER

SAMPLE = {"labelled": [1, 0], "probability": [1, 0.5]}
RECORDS = {"errors": [1, None], **SAMPLE, "floor": 0.5, "delta": 0.05}
GUESSES = {"confidence": [0.5, 0.7], "outcome": [1, None], "weights": [2, 0]}
LABELS = {"labels": [1, 0, None], "scores": [0.5, 0.7, 0.1], "weights": [2, 1, 0]}
CORRECT = {"correct": [1, 0, None], "u": [0.5, 0.7, 0.1], "weights": [2, 1, 0]}
RISKS = {"risks": [1, 0, None], "u": [0.5, 0.7, 0.1], "weights": [2, 1, 0]}
GOOD: dict[str, dict[str, Any]] = {
    "audit.spot_check": {"key": "k", "record_id": "r", "probability": 0.5, "purpose": "p"},
    "audit.allocate": {"confidence": [0.5, 0.7], "budget": 1, "floor": 0.01},
    "audit.label_weights": SAMPLE,
    "audit.completion_weights": {
        "selected": [1, 1],
        "completed": [1, 0],
        "probability": [1, 0.5],
        "strata": ["a", "a"],
    },
    "audit.missing_bounds": {"errors": [1, None], "selected": [1, 1], "completed": [1, 0], "probability": [1, 0.5]},
    "audit.weighted_mean": {"values": [1, None], "weights": [2, 0]},
    "audit.weighted_selective_risk": {"u": [0.1, 0.2], "errors": [1, None], "weights": [2, 0], "threshold": 0.15},
    "audit.weighted_bins": {**GUESSES, "n_bins": 2, "closed": "right"},
    "audit.weighted_ece": {**GUESSES, "n_bins": 2, "closed": "right"},
    "audit.weighted_ace": {**GUESSES, "n_bins": 2},
    "audit.weighted_brier": GUESSES,
    "audit.weighted_nll": {**GUESSES, "eps": 0.1},
    "audit.weighted_citl": GUESSES,
    "audit.weighted_c_slope": GUESSES,
    "audit.weighted_at_k": {
        "metric": "ace",
        "probs": [[0.1, 0.2], [0.4, 0.3]],
        "targets": [[0, 1], None],
        "weights": [2, 0],
        "k": 1,
        "n_bins": 2,
    },
    "audit.weighted_roc_auc": LABELS,
    "audit.weighted_au_prc": {**LABELS, "rule": "trapezoid"},
    "audit.weighted_error_roc_auc": CORRECT,
    "audit.weighted_error_au_prc": {**CORRECT, "rule": "trapezoid"},
    "audit.weighted_rc_auc": RISKS,
    "audit.weighted_n_rc_auc": RISKS,
    "audit.weighted_prr": {"quality": [1, 0, None], "u": [0.5, 0.7, 0.1], "weights": [2, 1, 0], "max_rejection": 0.9},
    "audit.weighted_macro_f1": {"y_true": [1, None], "y_pred": [1, 0], "weights": [2, 0]},
    "audit.weighted_set_metrics": {"sets": [[1], [0, 2]], "truth": [1, None], "weights": [2, 0]},
    "audit.aipw_mean": {"predicted": [0.1, 0.2], "outcome": [1, None], **SAMPLE, "delta": 0.05},
    "audit.effective_n": {"weights": [1, 2]},
    "audit.hajek_interval": {"values": [1, None], "weights": [2, 0], "delta": 0.05},
    "audit.wilson": {"k": 1, "n": 3, "delta": 0.05},
    "audit.clopper_pearson": {"k": 1, "n": 3, "delta": 0.05},
    "audit.labels_needed": {"max_risk": 0.02, "delta": 0.05, "errors": 1},
    "audit.evidence": {
        "outcome": [1, None],
        "weights": [2, 0],
        "min_labelled": 30,
        "min_effective": 20,
        "min_events": 5,
    },
    "audit.bootstrap": {
        "metric": "weighted_mean",
        "inputs": {"values": [1, 0], "weights": [1, 1]},
        "resamples": [[0, 1]],
        "clusters": ["a", "b"],
        "delta": 0.05,
    },
    "audit.risk_monitor": {**RECORDS, "target": 0.1, "direction": "above", "start": "any", "stakes": [0.5]},
    "audit.risk_sequence": RECORDS,
    "audit.running_risk_sequence": RECORDS,
    "audit.psi": {"reference": [1, 2, 3], "current": [1, 2], "n_bins": 2},
    "audit.ks": {"reference": [1, 2, 3], "current": [1, 2]},
    "audit.conformal_p_values": {"reference": [1, 2, 3], "stream": [1, 2], "uniforms": [0.5, 0.1]},
    "audit.exchangeability_martingale": {"p_values": [0.5, 0.1], "jump": 0.01, "delta": 0.05},
    "audit.label_shift": {"confusion": [[0.5, 0.1], [0.1, 0.3]], "predicted": [1, 2]},
    "audit.price_run": {
        "confidence": [0.5, None],
        "capacity": 0.1,
        "step": 0.2,
        "error_cost": 1,
        "review_cost": 0.1,
        "floor": 0.4,
        "price": 0,
    },
    "audit.rate_run": {"confidence": [0.5, None], "target": 0.2, "step": 0.1, "threshold": 0.8, "floor": 0.1},
    "audit.ipw_aci": {"alpha": 0.1, "gamma": 0.01, "errs": [1, None], "weights": [4, 0]},
    "audit.threshold_track": {
        "u": [0.5, None],
        "errors": [1, None],
        "weights": [4, 0],
        "target": 0.1,
        "step": 0.1,
        "threshold": 0.5,
        "ceiling": 2,
    },
    "audit.reviewer_rates": {"verdict": [1, None, 0], "truth": [1, None, 1], "weights": [2, 0, 1]},
    "audit.rogan_gladen": {
        "rate": 0.06,
        "n": 400,
        "sensitivity": 0.9,
        "n_sensitivity": 60,
        "specificity": 0.97,
        "n_specificity": 200,
        "delta": 0.05,
    },
    "audit.cohen_kappa": {"a": ["y", "n"], "b": ["y", "y"]},
    "audit.fleiss_kappa": {"counts": [[2, 0], [1, 1]]},
    "audit.krippendorff_alpha": {"ratings": [[1, 2], [None, 1]], "level": "nominal"},
    "audit.adjudicate": {"verdicts": ["a", None], "minimum": 1, "adjudicator": None},
}
OPTIONAL = {("audit.bootstrap", "clusters"), ("audit.risk_monitor", "stakes")}
TEXTS = {("audit.spot_check", name) for name in ("key", "record_id", "purpose")}
OPINIONS = [["a"], ["0.5"], []]
MEANT: dict[tuple[str, str], list[Any]] = {
    ("audit.weighted_selective_risk", "threshold"): [math.inf, -math.inf, -1],
    ("audit.weighted_set_metrics", "sets"): [[[0.1], [0.2, 0.3]]],
    **{(f"audit.{name}", "confidence"): [[None]] for name in ("price_run", "rate_run")},  # unknown
    ("audit.threshold_track", "threshold"): [-1],
    ("audit.krippendorff_alpha", "ratings"): [[["a"]], [[1j]], [[None]]],  # nobody to agree with
    ("audit.adjudicate", "verdicts"): [*OPINIONS, [["a"]], [None], [[]]],  # the last: that no label holds
    ("audit.adjudicate", "adjudicator"): ["x", *OPINIONS, None],
}


def test_every_function_is_here() -> None:
    assert GOOD.keys() == ENTRIES.keys()


@pytest.mark.parametrize("fn", GOOD)
def test_nothing_else_than_our_own_error(fn: str) -> None:
    ENTRIES[fn](**GOOD[fn])
    for name in GOOD[fn]:
        for bad in NEVER:
            if (bad is None and (fn, name) in OPTIONAL) or (bad == "x" and (fn, name) in TEXTS):
                continue
            if any(type(bad) is type(meant) and bad == meant for meant in MEANT.get((fn, name), [])):
                continue
            with pytest.raises((InvalidInput, InvalidDraw, InvalidOpinions)):
                ENTRIES[fn](**{**GOOD[fn], name: bad})
