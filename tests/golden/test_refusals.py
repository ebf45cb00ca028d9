"""Whatever is put in the place of an argument of a classifier's score or calibrator: our own error, or a result."""

import math
from typing import Any

import numpy as np
import pytest

from demur.uncertainty.checks import InvalidInput
from tests.golden.registry_classifiers import ENTRIES

P = [[0.5, 0.5], [0.2, 0.8]]
TREE = {"feature": 0, "threshold": 0.5, "left": {"size": 2}, "right": {"size": 1}}
GOOD: dict[str, dict[str, Any]] = {
    **{f"scores.{name}": {"probs": P} for name in ("sr", "margin", "ent", "binary_entropy")},
    **{f"scores.{name}": {"mc_probs": [P]} for name in ("smp", "ent_mc", "bald")},
    "scores.pv": {"mc_probs": [P], "reduce": "mean"},
    "scores.binary_entropy_sample": {"probs": P, "reduce": "sum"},
    **{
        f"scores.{name}": {
            "train_features": [[0.0, 0.0], [1, 2], [3, 1], [2, 5]],
            "train_labels": [0, 0, 0, 1],
            "features": P,
            "shrinkage": 0.1,
        }
        for name in ("mahalanobis", "relative_mahalanobis")
    },
    "scores.lof": {"train_features": [[0.0, 0.0], [1, 2], [3, 1]], "features": P, "k": 2},
    "scores.isolation_c": {"n": 3},
    "scores.isolation_forest": {"trees": [TREE], "subsample_size": 3, "features": P},
    "scores.huq": {
        "epistemic": [1.0, 2],
        "aleatoric": [0.1, 0.2],
        "reference_epistemic": [1.0, 2, 3],
        "reference_aleatoric": [0.1, 0.2, 0.3],
        "alpha": 0.2,
        "variant": "step",
        "delta_min": 0.1,
        "delta_max": 0.9,
    },
    "calibrators.isotonic": {
        "fit_scores": [1.0, 2, 3],
        "fit_targets": [0, 1, 1],
        "scores": [1.0, 2],
        "weights": [1, 1, 2],
        "interpolation": "linear",
    },
    "calibrators.platt": {"fit_scores": [1.0, 2, 3], "fit_targets": [0, 1, 0], "scores": [1.0], "smoothing": True},
    "calibrators.temperature_multiclass": {
        "fit_logits": [[1.0, 2], [2, 1]],
        "fit_labels": [0, 1],
        "logits": [[1.0, 2]],
        "t_min": 0.01,
        "t_max": 100.0,
    },
    "calibrators.temperature_binary": {
        "fit_logits": [1.0, 2],
        "fit_targets": [0, 1],
        "logits": [1.0],
        "t_min": 0.01,
        "t_max": 100.0,
    },
    "calibrators.beta_calibration": {
        "fit_probs": [0.1, 0.2, 0.5, 0.7],
        "fit_targets": [0, 1, 0, 1],
        "probs": [0.5],
        "eps": 1e-12,
    },
    "calibrators.histogram_binning": {
        "fit_probs": [0.1, 0.2, 0.5, 0.7],
        "fit_targets": [0, 1, 0, 1],
        "probs": [0.5],
        "n_bins": 3,
        "strategy": "quantile",
    },
    "calibrators.topk_isotonic": {
        "fit_probs": P,
        "fit_hits": [[0, 1], [1, 0]],
        "probs": P,
        "mode": "separate",
        "interpolation": "step",
    },
    "calibrators.crossfit_isotonic": {
        "probs": P,
        "hits": [[0, 1], [1, 0]],
        "folds": ["a", "b"],
        "interpolation": "step",
    },
    "calibrators.minmax_squash": {"fit_scores": [1.0, 2], "scores": [1.0]},
}
OPTIONAL = {("calibrators.isotonic", "weights")}

NEVER = [
    *("", "x", ["a"], ["0.5"], [["a"]], [[["0.5"]]], b"x", np.array(["0.5"], dtype=object)),
    *(None, [None], [[None]], {}, [{}], object()),
    *(math.nan, [math.nan], [[math.nan]], math.inf, -math.inf, [math.inf], 1j, [1j], [[1j]]),
    *([], [[]], [[0.1], [0.2, 0.3]], -1, 1e400),
]


def test_every_function_is_here() -> None:
    assert GOOD.keys() == ENTRIES.keys()


@pytest.mark.parametrize("fn", GOOD)
def test_nothing_else_than_our_own_error(fn: str) -> None:
    ENTRIES[fn](**GOOD[fn])
    for name in GOOD[fn]:
        for bad in NEVER:
            if bad is None and (fn, name) in OPTIONAL:
                continue
            with pytest.raises(InvalidInput):
                ENTRIES[fn](**{**GOOD[fn], name: bad})


@pytest.mark.parametrize(
    ("fn", "changes"),
    [
        ("scores.huq", {"reference_epistemic": None}),  # one reference without the other
        ("scores.huq", {"reference_aleatoric": [0.1]}),
        ("scores.huq", {"aleatoric": [0.1]}),
        ("scores.relative_mahalanobis", {"train_labels": [0, 0]}),
        ("scores.lof", {"k": 2.0}),
        ("scores.isolation_forest", {"subsample_size": 1}),
        ("calibrators.isotonic", {"fit_targets": [0, 0.5, 1]}),
        ("calibrators.isotonic", {"weights": [0, 0, 0]}),
        ("calibrators.platt", {"fit_targets": [1, 1, 1], "smoothing": False}),
        ("calibrators.temperature_multiclass", {"logits": [[1.0, 2, 3]]}),
        ("calibrators.temperature_multiclass", {"fit_labels": [0, 2]}),
        ("calibrators.temperature_binary", {"t_min": 200.0}),
        ("calibrators.beta_calibration", {"fit_targets": [1, 1, 1, 1]}),
        ("calibrators.beta_calibration", {"probs": [1.5]}),
        ("calibrators.histogram_binning", {"n_bins": 2.0}),
        ("calibrators.topk_isotonic", {"probs": [[0.5, 0.4, 0.3]]}),
        ("calibrators.crossfit_isotonic", {"folds": ["a", "a"]}),
    ],
)
def test_arguments_that_do_not_fit_each_other(fn: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ENTRIES[fn](**{**GOOD[fn], **changes})
