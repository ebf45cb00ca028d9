"""What of a stream is controlled, as it is written, and what cannot work there."""

import pytest
from pydantic import ValidationError

from demur.policies.control import AdaptiveLevel, ControlledValue, PricedReviews, TrackedRate, TrackedRisk
from demur.serve.config.complaint import complaint
from demur.serve.config.control import first_course, settings_of
from demur.serve.config.file import ModelConfig
from tests.serve.scripted import configured

SETS = {
    "host": {"kind": "classifier", "checkpoint": "none"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "prediction_set": {"kind": "split", "keep_predicted": False},
}
PRICE = {"kind": "review_price", "capacity": 0.1}
RISK = {"kind": "tracked_limit", "max_risk": 0.02}
LEVEL = {"kind": "adaptive_sets", "alpha": 0.1}


@pytest.mark.parametrize(
    ("told", "sections", "kind", "start"),
    [
        (PRICE, {}, PricedReviews, 0.0),
        ({"kind": "review_rate", "target": 0.1}, {}, TrackedRate, 0.5),
        (RISK, {"spot_check": 0.02}, TrackedRisk, 1.0),
        ({**RISK, "start": 0.75}, {"spot_check": 0.02}, TrackedRisk, 0.25),
        (LEVEL, {**SETS, "spot_check": 0.02}, AdaptiveLevel, 0.1),
    ],
)
def test_what_can_be_written(told, sections, kind, start):
    model = configured("multiclass", control=told, **sections)
    assert isinstance(model.control.control(model.least_label_probability), kind)
    assert first_course(model.control) == ControlledValue.at(start)
    again = ModelConfig.model_validate(model.model_dump())
    assert settings_of(again) == settings_of(model)
    assert settings_of(model)["step"] > 0
    assert model.control.words.endswith("on average over the whole stream")


def test_without_a_step_one_label_moves_a_limit_by_two_percent():
    model = configured("binary", control=RISK, spot_check={"rate": 0.1, "floor": 0.02, "allocate": "uncertainty"})
    assert model.control.control(model.least_label_probability).rule.step == pytest.approx(0.02 * 0.02)


@pytest.mark.parametrize(
    ("told", "sections", "why"),
    [
        ({"kind": "price"}, {}, "control.kind: write one of: review_price, review_rate, tracked_limit, adaptive_sets"),
        ({**PRICE, "capacity": 1.1}, {}, "write at most 1"),
        ({**PRICE, "step": 0}, {}, "write more than 0"),
        ({**PRICE, "floor": 0.5}, {}, "this key is not known"),
        ({**PRICE, "review_cost": 1}, {}, "a review must cost less"),
        (PRICE, {"policy": {"kind": "threshold", "limit": 0.5, "otherwise": "abstain"}}, "otherwise: review"),
        (RISK, {}, "set `spot_check`"),
        ({**RISK, "max_risk": 0}, {"spot_check": 0.02}, "write more than 0"),
        (
            {**RISK, "step": 0.01},
            {"spot_check": 0.02},
            "at a spot check of 0.02 one label would move the limit by up to 0.5 of its range, and it would swing"
            " between answering all and nothing; write at most 0.001, or check more",
        ),
        ({**LEVEL, "step": 0.01}, {**SETS, "spot_check": 0.02}, "write at most 0.001"),
        (LEVEL, SETS, "set `spot_check`"),
        (LEVEL, {**SETS, "spot_check": 0.02, "prediction_set": {}}, "keep_predicted: false"),
        (LEVEL, {**SETS, "spot_check": 0.02, "prediction_set": {"kind": "adaptive"}}, "of kind `split`"),
    ],
)
def test_what_cannot_work_is_refused(told, sections, why):
    with pytest.raises(ValidationError) as refused:
        configured("multiclass", control=told, **sections)
    assert why in complaint(refused.value)


def test_label_sets_have_no_level_that_could_be_moved():
    with pytest.raises(ValidationError, match="labels exclude each"):
        configured("multilabel", control=LEVEL, spot_check=0.1)
