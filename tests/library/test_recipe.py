"""One parser reads settings from the configuration file and from Python."""

import numpy as np
import pytest

from demur.library.class_labels import ClassLabels
from demur.library.estimator_settings import EstimatorSettings, plain
from demur.library.recipe import selector_recipe
from demur.library.settings import UnfitSettings, part
from demur.library.wrapped_estimator import WrappedEstimator
from demur.policies.rules import POLICIES
from demur.serve.config.file import ModelConfig

LABELS = ["billing", "outage", "other"]
GATED = {
    "kind": "all_of",
    "gates": [{"in_distribution": {"score": "far", "quantile": 0.9}}],
    "rule": {"kind": "target_risk", "max_risk": 0.1},
}


class Embeds:
    """It only has to say what it could give."""

    def predict_proba(self, rows): ...
    def embed(self, rows): ...


def in_python(multilabel, **settings):
    labels = ClassLabels.of(LABELS, exclusive=not multilabel)
    return selector_recipe(EstimatorSettings(**settings).of(WrappedEstimator(Embeds()), labels)[0])


def in_yaml(multilabel, thresholds=None, **settings):
    task = {"kind": "multilabel" if multilabel else "multiclass", "labels": LABELS, "thresholds": thresholds}
    host = {"kind": "classifier", "checkpoint": "somewhere"}
    return ModelConfig.model_validate({"task": task, "host": host, **settings}).recipe


@pytest.mark.parametrize(
    ("multilabel", "settings"),
    [
        (False, {"policy": {"kind": "selective_risk", "max_risk": 0.05, "delta": 0.2}}),
        (False, {"policy": {"kind": "conformal"}, "prediction_set": {"kind": "adaptive", "alpha": 0.2}}),
        (False, {"policy": {"kind": "cost", "matrix": {one: dict.fromkeys(LABELS, 1) for one in LABELS}}}),
        (
            False,
            {
                "scores": ["entropy", "margin", {"mahalanobis": {"as": "far", "shrinkage": 0.05}}],
                "confidence": {"score": "margin", "calibrator": {"histogram_binning": {"n_bins": 5}}},
                "policy": GATED,
            },
        ),
        (True, {"policy": {"kind": "target_risk", "max_risk": 0.3}, "thresholds": "max_f1"}),
        (
            True,
            {
                "policy": {"kind": "risk_control", "alpha": 0.2},
                "thresholds": {"fixed": {"labels": {"outage": 0.2}}},
                "label_confidence": "isotonic",
            },
        ),
    ],
)
def test_the_same_words_make_the_same_selector(multilabel, settings):
    scores = settings.get("scores", ["binary_entropy"] if multilabel else ["softmax_response", "entropy"])
    confidence = settings.get("confidence", {"score": scores[0]})
    assert in_python(multilabel, **settings) == in_yaml(
        multilabel, **{**settings, "scores": scores, "confidence": confidence}
    )


def test_settings_of_the_wrong_type_are_told_with_their_place():
    with pytest.raises(UnfitSettings, match=r"policy\.max_risk: input should be a valid number"):
        part("policy.kind", POLICIES, "target_risk", {"max_risk": "little"}, within="policy")
    with pytest.raises(UnfitSettings, match="policy: max_risk is 2"):
        part("policy.kind", POLICIES, "target_risk", {"max_risk": 2.0}, within="policy")


def test_settings_become_what_yaml_would_have_given():
    given = {0: np.float64(0.5), True: (1, np.int64(2)), "a": np.array([1.0])}
    assert plain("policy", given) == {"0": 0.5, "True": [1, 2], "a": [1.0]}
    with pytest.raises(ValueError, match=r"policy: .* cannot be written down"):
        plain("policy", {"limit": {1, 2}})
