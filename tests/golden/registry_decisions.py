"""The decision rules of METHODS 4, in the shape that the golden vectors expect."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.policies import (
    adaptive,
    cost,
    guaranteed_risk,
    hierarchy,
    label_thresholds,
    learn_then_test,
    mondrian,
    risk_bound,
    risk_control,
    sampled_sets,
)


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


def json_key(name: Any) -> Any:
    """What JSON makes of a key: groups may be numbers, keys are text."""
    return json.dumps(name) if isinstance(name, int | None) else name


def mondrian_quantiles(scores: Any, groups: Any, alpha: Any, **options: Any) -> dict[Any, float]:
    quantiles = mondrian.mondrian_quantiles(scores, groups, alpha, **options)
    return {json_key(name): value for name, value in quantiles.items()}


def mondrian_sets(option_scores: Any, groups: Any, quantiles: Any, **options: Any) -> list[list[int]]:
    names = [json_key(name) for name in groups] if isinstance(groups, list) else groups
    return mondrian.mondrian_sets(option_scores, names, quantiles, **options)


def ltt(**arguments: Any) -> dict[str, Any]:
    tested = learn_then_test.learn_then_test(**arguments)
    return {"p_values": tested.p_values.tolist(), "rejected": tested.rejected, "threshold": tested.threshold}


def conformal_risk_control(**arguments: Any) -> dict[str, Any]:
    found = risk_control.conformal_risk_control(**arguments)
    return {"lambda": found.setting, "index": found.index, "feasible": found.feasible}


def chow(probs: Any, **costs: Any) -> dict[str, Any]:
    decisions = [asdict(decision) for decision in cost.chow(probs, **costs)]
    return {"threshold": cost.chow_threshold(**costs), "decisions": decisions}


ENTRIES: dict[str, Callable[..., Any]] = {
    "decide.thresholds_max_f1": label_thresholds.thresholds_max_f1,
    "decide.up_propagate_labels": hierarchy.up_propagate_labels,
    "decide.up_propagate_probs": hierarchy.up_propagate_probs,
    "decide.imdrf_ancestors": hierarchy.imdrf_ancestors,
    "decide.sample_conformal": as_dict(sampled_sets.sample_conformal),
    "decide.mondrian_quantiles": mondrian_quantiles,
    "decide.mondrian_sets": mondrian_sets,
    "decide.aci": adaptive.adaptive_alphas,
    "decide.aci_run": as_dict(adaptive.run_adaptive),
    "decide.binomial_upper_bound": risk_bound.binomial_upper_bound,
    "decide.sgr": as_dict(guaranteed_risk.guaranteed_risk),
    "decide.ltt": ltt,
    "decide.conformal_risk_control": conformal_risk_control,
    "decide.chow": chow,
    "decide.chow_cost_matrix": lambda **arguments: [asdict(d) for d in cost.chow_cost_matrix(**arguments)],
}
