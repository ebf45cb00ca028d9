"""The comparison of two artifacts, METHODS 9.7, in the shape that the golden vectors expect."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from demur.audit.metrics import comparison


def as_dict(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    return lambda **arguments: asdict(function(**arguments))


ENTRIES: dict[str, Callable[..., Any]] = {
    "audit.paired_difference": comparison.paired_difference,
    "audit.mcnemar": as_dict(comparison.mcnemar),
    "audit.decision_flips": as_dict(comparison.decision_flips),
}
