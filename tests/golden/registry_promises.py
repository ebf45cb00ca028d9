"""Promises, their audits and sharper confidence (METHODS 10) in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.audit.metrics import multiplicity, promise_tests
from demur.policies import label_share, training_conditional
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
    "audit.fit_spread": as_dict(promise_tests.fit_spread),
    "audit.judge_count": as_dict(promise_tests.judge_count),
    "audit.judge_mean": as_dict(promise_tests.judge_mean),
    "audit.holm": as_dict(multiplicity.holm),
    "audit.verdict": as_dict(multiplicity.verdict_of_parts),
}
