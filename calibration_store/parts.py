"""Taking a fitted selector apart into JSON and arrays, and putting it together again. Nothing is pickled.

A fitted part is a frozen dataclass whose fields are numbers, strings or float64 arrays: that is all there is to know
about it, so one function serves every part.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from policies.conformal import LabelSets
from policies.selector import FITTED_POLICIES, Selector
from uncertainty.calibrators import FITTED_CALIBRATORS
from uncertainty.checks import Array
from uncertainty.scores import FITTED_SCORES

PARTS: dict[str, type] = {
    part.__name__: part for part in (*FITTED_SCORES, *FITTED_CALIBRATORS, *FITTED_POLICIES, LabelSets)
}


class UnknownPart(ValueError):
    """The artifact holds a part that this version of demur does not know, or not with these fields."""


def take_apart(selector: Selector) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the selector as a JSON description and the arrays that it refers to by name."""
    arrays: dict[str, Array] = {}
    description = {
        "scores": {name: _describe(part, f"scores.{name}", arrays) for name, part in selector.scores.items()},
        "confidence_score": selector.confidence_score,
        "calibrator": _describe(selector.calibrator, "calibrator", arrays),
        "sets": _describe(selector.sets, "sets", arrays),
        "policy": _describe(selector.policy, "policy", arrays),
    }
    return description, arrays


def put_together(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> Selector:
    """The inverse of `take_apart`."""
    try:
        return Selector(
            scores={name: _build(part, arrays) for name, part in description["scores"].items()},
            confidence_score=description["confidence_score"],
            calibrator=_build(description["calibrator"], arrays),
            sets=_build(description["sets"], arrays),
            policy=_build(description["policy"], arrays),
        )
    except (KeyError, TypeError) as error:
        raise UnknownPart(f"the description of the selector does not fit this version of demur: {error}") from None


def _describe(part: Any, place: str, arrays: dict[str, Array]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray):
            name = f"{place}.{field.name}"
            arrays[name] = np.ascontiguousarray(value, dtype=np.float64)
            values[field.name] = {"array": name}
        elif isinstance(value, float) and np.isinf(value):
            values[field.name] = {"infinity": 1 if value > 0 else -1}  # JSON has no word for it
        else:
            values[field.name] = value
    return {"kind": type(part).__name__, **values}


def _build(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> Any:
    values = dict(description)
    kind = values.pop("kind")
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = arrays[value["array"]] if "array" in value else value["infinity"] * np.inf
    return PARTS[kind](**values)
