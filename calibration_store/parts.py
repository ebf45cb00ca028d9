"""Taking a fitted selector apart into JSON and arrays, and putting it together again. Nothing is pickled.

A fitted part is a frozen dataclass whose fields are numbers, strings, float64 arrays, other fitted parts, or lists
of these: that is all there is to know about it, so one function serves every part.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from demur.policies.all_of import FITTED_GATES, Gated
from demur.policies.covariate_shift import WeightModel
from demur.policies.label_sets import FITTED_SETS
from demur.policies.moved_inputs import FeatureWeights
from demur.policies.prediction import FITTED_PREDICTORS
from demur.policies.promise import Promise
from demur.policies.rules import FITTED_POLICIES
from demur.policies.selector import Selector
from demur.uncertainty.calibrators import FITTED_CALIBRATORS
from demur.uncertainty.checks import Array
from demur.uncertainty.combination import FITTED_COMBINATIONS
from demur.uncertainty.correctness_model import CorrectnessModel
from demur.uncertainty.feature_scores import FeatureLogisticScore, FeatureRidgeScore, FeatureSumScore
from demur.uncertainty.hybrid import HybridRanks
from demur.uncertainty.label_confidence import LabelCalibrator
from demur.uncertainty.label_correctness import LabelCorrectness
from demur.uncertainty.label_correctness_calibrator import CorrectLabels
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.platt_top_k import PlattRanks
from demur.uncertainty.scores import FITTED_SCORES
from demur.uncertainty.top_k import IsotonicMaps, JointTopK, PerLabel, SeparateTopK

PARTS: dict[str, type] = {
    part.__name__: part
    for part in (
        *FITTED_SCORES,
        *FITTED_COMBINATIONS,
        HybridRanks,
        *(FeatureSumScore, FeatureLogisticScore, FeatureRidgeScore),
        *FITTED_CALIBRATORS,
        CorrectnessModel,
        *(CorrectLabels, LabelCorrectness),
        *(LabelCalibrator, JointTopK, SeparateTopK, PerLabel, IsotonicMaps, PlattRanks),
        *FITTED_PREDICTORS,
        LabelTree,
        *FITTED_SETS,
        *(FeatureWeights, WeightModel),
        *FITTED_POLICIES,
        *FITTED_GATES,
        Gated,
        Promise,
    )
}

OWN_KIND = "kind of it"
"""Stands for a field that a part calls `kind`, which here says what part it is."""


class UnknownPart(ValueError):
    """The artifact holds a part that this version of demur does not know, or not with these fields."""


def take_apart(selector: Selector, place: str = "") -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the selector as a JSON description and the arrays that it refers to, by names that begin with `place`."""
    arrays: dict[str, Array] = {}
    description = {
        field.name: _describe(getattr(selector, field.name), f"{place}{field.name}", arrays)
        for field in fields(selector)
    }
    return description, arrays


def put_together(description: Mapping[str, Any], arrays: Mapping[str, Array]) -> Selector:
    """The inverse of `take_apart`. What an older description lacks is as it always was then."""
    try:
        return Selector(**{name: _build(value, arrays) for name, value in description.items()})
    except (KeyError, TypeError) as error:
        raise UnknownPart(f"the description of the selector does not fit this version of demur: {error}") from None


def _describe(value: Any, place: str, arrays: dict[str, Array]) -> Any:
    if is_dataclass(value):
        inner = {f.name: _describe(getattr(value, f.name), f"{place}.{f.name}", arrays) for f in fields(value)}
        if "kind" in inner:
            inner[OWN_KIND] = inner.pop("kind")
        return {"kind": type(value).__name__, **inner}
    if isinstance(value, np.ndarray):
        arrays[place] = np.ascontiguousarray(value, dtype=np.float64)
        return {"array": place}
    if isinstance(value, Mapping):
        return {name: _describe(item, f"{place}.{name}", arrays) for name, item in value.items()}
    if isinstance(value, list):
        return [_describe(item, f"{place}.{at}", arrays) for at, item in enumerate(value)]
    if isinstance(value, float) and np.isinf(value):
        return {"infinity": 1 if value > 0 else -1}  # JSON has no word for it
    return value


def _build(value: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(value, list):
        return [_build(item, arrays) for item in value]
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "infinity" in value:
        return value["infinity"] * np.inf
    inner = {name: _build(item, arrays) for name, item in value.items() if name != "kind"}
    if OWN_KIND in inner:
        inner["kind"] = inner.pop(OWN_KIND)
    return PARTS[value["kind"]](**inner) if "kind" in value else inner
