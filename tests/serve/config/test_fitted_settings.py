"""What is configured otherwise than an artifact was fitted is found, and nothing else."""

import copy

import pytest
import yaml

from demur.serve.config.file import Config
from demur.serve.config.fitted_settings import differences, fitted_settings, in_words
from tests.conftest import ROOT


@pytest.fixture
def content():
    return yaml.safe_load((ROOT / "tests/quickstart.yaml").read_text())


def manifest_of(content, name="digits"):
    return {"configured": fitted_settings(Config.model_validate(content).models[name])}


def found(content, manifest, name="digits"):
    return differences(name, Config.model_validate(content).models, manifest)


def test_the_same_file_differs_in_nothing(content):
    assert found(content, manifest_of(content)) == {}
    assert found(content, manifest_of(content, "sums"), "sums") == {}


@pytest.mark.parametrize(
    ("section", "value", "key"),
    [
        ("policy", {"kind": "target_risk", "max_risk": 0.08}, "policy.max_risk"),
        ("policy", {"kind": "selective_risk", "max_risk": 0.002}, "policy"),
        ("confidence", {"score": "entropy", "calibrator": "platt"}, "confidence.score"),
        ("confidence", {"score": "softmax_response", "calibrator": "isotonic"}, "confidence.calibrator"),
        ("scores", ["softmax_response", "entropy"], "scores"),
        ("prediction_set", {"alpha": 0.01}, "prediction_set.alpha"),
        ("prediction_set", {"alpha": 0.005, "kind": "adaptive"}, "prediction_set"),
        ("calibration", {"data": "var/digits/calibration.jsonl", "report_share": 0.3}, "calibration.report_share"),
        ("calibration", {"data": "elsewhere/other.jsonl"}, "calibration.data"),
    ],
)
def test_each_section_that_waits_for_a_fit_is_compared(content, section, value, key):
    fitted = manifest_of(content)
    content["models"]["digits"][section] = value
    assert list(found(content, fitted)) == [key]


def test_the_words_tell_both_values(content):
    fitted = manifest_of(content)
    content["models"]["digits"]["policy"]["max_risk"] = 0.02
    assert found(content, fitted) == {"policy.max_risk": "policy.max_risk is 0.02, and 0.002 in the artifact"}


def test_of_long_values_the_part_is_told_in_which_they_differ(content):
    labels = [f"intent number {n}" for n in range(50)]
    content["models"]["digits"]["task"]["labels"] = labels
    fitted = manifest_of(content)
    content["models"]["digits"]["task"]["labels"] = [*labels[:30], "refund", *labels[31:]]
    [words] = found(content, fitted).values()
    assert words.startswith("task.labels is ...")
    assert "'refund', 'intent number 31'" in words
    assert "'intent number 30', 'intent number 31'" in words


def test_labels_in_another_order_are_another_task(content):
    fitted = manifest_of(content)
    content["models"]["digits"]["task"]["labels"][:2] = ["1", "0"]
    assert list(found(content, fitted)) == ["task.labels"]


@pytest.mark.parametrize(
    "change",
    [
        {"spot_check": 0.1},
        {"monitor": False},
        {"blind_review": True},
        {"outcomes": {"precedence": ["lab"]}},
        {"calibration": {"data": "/moved/to/calibration.jsonl"}},  # the same file elsewhere
        {"host": {"kind": "classifier", "checkpoint": "deploy/models/digits", "replicas": 3}},
    ],
)
def test_what_is_in_force_at_once_is_no_difference(content, change):
    fitted = manifest_of(content)
    content["models"]["digits"].update(change)
    assert found(content, fitted) == {}


def test_where_prompts_lie_does_not_matter_and_how_they_are_read_does(content, tmp_path):
    content["models"]["sums"]["task"] = {"kind": "binary", "labels": ["no", "yes"]}
    (tmp_path / "a.jinja").write_text("{{ input }}")
    content["models"]["sums"]["prompt"] = {"template": str(tmp_path / "a.jinja")}
    fitted = manifest_of(content, "sums")
    (tmp_path / "b.jinja").write_text("{{ input }}")
    content["models"]["sums"]["prompt"] = {"template": str(tmp_path / "b.jinja")}
    assert found(content, fitted, "sums") == {}
    content["models"]["sums"]["samples"] = {"max": 5}
    assert list(found(content, fitted, "sums")) == ["samples.max"]


def test_settings_that_an_earlier_demur_did_not_tell_are_not_compared(content):
    fitted = manifest_of(content)
    del fitted["configured"]["calibration"]
    del fitted["configured"]["samples"]["top_p"]  # younger than this artifact: its default was in force
    content["models"]["digits"]["calibration"]["seed"] = 7
    assert found(content, fitted) == {}
    assert found(content, {}) == {}


def test_settings_that_this_demur_does_not_know_any_more_are_a_difference(content):
    fitted = manifest_of(content)
    fitted["configured"]["policy"] = {"kind": "gone", "limit": 1}
    assert list(found(content, fitted)) == ["policy"]


def test_in_a_cascade_the_later_models_count_too(content):
    models = content["models"]
    models["large"] = copy.deepcopy(models["digits"])
    models["digits"]["escalate_to"] = "large"
    config = Config.model_validate(content)
    fitted = {
        "configured": fitted_settings(config.models["digits"]),
        "configured_further": {"large": fitted_settings(config.models["large"])},
    }
    assert found(content, fitted) == {}
    models["large"]["confidence"]["calibrator"] = "isotonic"
    assert list(found(content, fitted)) == ["large: confidence.calibrator"]


def test_of_very_many_differences_the_first_are_told():
    assert in_words({str(n): f"n{n}" for n in range(13)}).endswith("n9; and 3 more")


def test_a_class_of_the_users_own_has_younger_settings_filled_in_as_well(content):
    content["models"]["digits"]["host"] = {"kind": "python", "class": "own_models:Digits"}
    fitted = manifest_of(content)
    del fitted["configured"]["task"]["match"]
    assert found(content, fitted) == {}
