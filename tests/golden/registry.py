"""The functions that are built so far, under their names in METHODS, in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.policies import conformal, threshold
from tests.golden.registry_audit import ENTRIES as AUDIT
from tests.golden.registry_classifiers import ENTRIES as CLASSIFIERS
from tests.golden.registry_comparison import ENTRIES as COMPARISON
from tests.golden.registry_decisions import ENTRIES as DECISIONS
from tests.golden.registry_generations import ENTRIES as GENERATIONS
from tests.golden.registry_metrics import ENTRIES as METRICS
from tests.golden.registry_promises import ENTRIES as PROMISES


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


REGISTRY: dict[str, Callable[..., Any]] = {
    "decide.threshold_at_rejection_rate": as_dict(threshold.threshold_at_rejection_rate),
    "decide.threshold_at_target_risk": as_dict(threshold.threshold_at_target_risk),
    "decide.conformal_quantile": conformal.conformal_quantile,
    "decide.conformal_sets": conformal.conformal_sets,
    **CLASSIFIERS,
    **GENERATIONS,
    **METRICS,
    **DECISIONS,
    **COMPARISON,
    **AUDIT,
    **PROMISES,
}
