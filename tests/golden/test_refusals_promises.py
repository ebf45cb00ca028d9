"""Whatever is put in the place of an argument of a function about promises: our own error."""

from typing import Any

import pytest

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
}
"""Arguments that are taken as they are."""

TAKEN: dict[tuple[str, str], Any] = {
    ("audit.fit_spread", "rank"): [None],
    ("audit.judge_count", "fit_rank"): [None],
    ("audit.judge_mean", "loss_variance"): [None],
    ("audit.judge_mean", "estimate"): [-1],
    ("audit.judge_mean", "target"): [-1],  # with a variance of its own
    ("audit.holm", "p_values"): [[None]],
}
"""What is good all the same in the place of an argument."""


def test_every_function_is_here() -> None:
    assert GOOD.keys() == ENTRIES.keys()


@pytest.mark.parametrize("fn", GOOD)
def test_nothing_else_than_our_own_error(fn: str) -> None:
    ENTRIES[fn](**GOOD[fn])
    for name in GOOD[fn]:
        for bad in NEVER:
            if any(bad is good or bad == good for good in TAKEN.get((fn, name), [])):
                continue
            with pytest.raises(InvalidInput):
                ENTRIES[fn](**{**GOOD[fn], name: bad})


@pytest.mark.parametrize(
    ("fn", "changes"),
    [
        ("scores.deep_knn", {"train_labels": None}),  # one of the two without the other
        ("scores.deep_knn", {"features": [[1.0]]}),
        ("scores.deep_knn", {"leave_one_out": True, "features": [[1.0, 0.0]], "predicted": ["a"]}),
        ("decide.missed_labels", {"lambdas": [0.2, 0.2]}),
        ("decide.missed_labels", {"targets": [[1]]}),
        ("decide.label_share_control", {"held": [3]}),
        ("decide.label_share_control", {"missed": [[0, 1]]}),
        ("decide.label_share_control", {"missed": [[0.5, 0]]}),
        ("audit.judge_count", {"fit_n": None, "fit_rank": None}),
        ("audit.judge_count", {"promise": "fit", "fit_n": None}),
        ("audit.verdict", {"p_kept": [None]}),
    ],
)
def test_arguments_that_do_not_fit_each_other(fn: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        ENTRIES[fn](**{**GOOD[fn], **changes})
