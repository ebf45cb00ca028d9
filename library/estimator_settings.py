"""The settings of a selector as arguments: what is left out is filled in, and all of it becomes plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from demur.library.class_labels import ClassLabels
from demur.library.class_text import class_text
from demur.library.recipe import SelectorSettings, label_limits
from demur.library.settings import named
from demur.library.wrapped_estimator import WrappedEstimator

DEFAULT_POLICY = {"kind": "selective_risk", "max_risk": 0.05}
SCORES_OF = {True: ["softmax_response", "entropy"], False: ["binary_entropy"]}
"""By default, where labels exclude each other and where they do not."""


@dataclass(frozen=True, kw_only=True)
class EstimatorSettings:
    """What somebody gave to a `SelectiveClassifier`, in the words of the configuration file. None: the default."""

    policy: Any = None
    scores: Any = None
    confidence: Any = None
    prediction_set: Any = None
    label_confidence: Any = None
    thresholds: Any = None

    def of(self, model: WrappedEstimator, labels: ClassLabels) -> tuple[SelectorSettings, dict[str, Any]]:
        """Return the settings as a selector is built from them, and as a manifest tells them.

        Raise `ValueError` for a section that is none; what stands in the sections is looked at later.
        """
        scores = plain("scores", SCORES_OF[labels.exclusive] if self.scores is None else self.scores)
        if isinstance(scores, str | Mapping):
            scores = [scores]
        if not isinstance(scores, list) or not scores:
            raise ValueError("scores: write a list of names, or of names with their settings")
        confidence = self._confidence(scores, labels)
        policy = self._section("policy", DEFAULT_POLICY if self.policy is None else self.policy)
        sets = self._section("prediction_set", self.prediction_set or {})
        label_confidence = plain("label_confidence", self.label_confidence)
        thresholds = plain("thresholds", self.thresholds)
        if thresholds is not None and labels.exclusive:
            raise ValueError("thresholds: they are for multilabel tasks; here the most probable class wins")
        task = labels if labels.exclusive else replace(labels, predictor=label_limits(thresholds, labels.labels))
        right = confidence.get("right") or ("exact" if labels.exclusive else "jaccard")
        settings = SelectorSettings(
            task=task,
            model=model,
            scores=scores,
            confidence_score=confidence["score"],
            calibrator=confidence["calibrator"],
            right=right,
            policy=policy,
            prediction_set=sets,
            label_confidence=label_confidence,
        )
        told = {
            "scores": scores,
            "confidence": {**confidence, "right": confidence.get("right")},
            "policy": policy,
            "prediction_set": sets,
            "label_confidence": label_confidence,
            "task": {"kind": labels.kind, "labels": list(labels.labels), "thresholds": thresholds},
        }
        return settings, told

    def _confidence(self, scores: Sequence[Any], labels: ClassLabels) -> dict[str, Any]:
        given = self._section("confidence", self.confidence or {})
        if unknown := sorted(given.keys() - {"score", "calibrator", "right"}):
            raise ValueError(f"confidence.{unknown[0]}: it takes score, calibrator and right")
        if given.get("right") not in (None, "exact", "jaccard"):
            raise ValueError(f"confidence.right: {given['right']!r} is not one of: exact, jaccard")
        filled = {"score": _first_name(scores), "calibrator": "isotonic", **given}
        if not labels.exclusive and self.policy is None and not given.get("right"):
            filled["right"] = "exact"  # the default policy counts errors
        return filled

    def _section(self, place: str, given: Any) -> dict[str, Any]:
        section = plain(place, given)
        if not isinstance(section, dict):
            raise ValueError(f"{place}: write keys and values, like {{'kind': ...}}, and not {given!r}")
        return section


def plain(place: str, value: Any) -> Any:
    """Return settings as YAML would give them: dictionaries with texts as keys, lists, texts, numbers and truths."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else class_text(key): plain(place, one) for key, one in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(place, value.tolist())
    if isinstance(value, list | tuple):
        return [plain(place, one) for one in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(f"{place}: {value!r} cannot be written down; give texts, numbers, lists and dictionaries")


def _first_name(scores: Sequence[Any]) -> str:
    kind, settings = named("scores.0", scores[0])
    return str(settings.get("as", kind))
