"""Labels that a configuration leaves out come from the checkpoint; those that it lists are held against it."""

import json
from pathlib import Path

import pytest
import yaml

from demur.serve.config.checkpoint_facts import BadCheckpoint, check_same
from demur.serve.config.file import BadConfig, Config
from demur.serve.configuration import load_config
from tests.serve.config.broken_files import NAMES

MODEL = {
    "host": {"kind": "classifier", "checkpoint": "model"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.5},
}
SIGMOID = {"scores": ["binary_entropy"], "confidence": {"score": "binary_entropy"}}


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Read a task in a folder with a checkpoint that has these names for its classes."""
    monkeypatch.chdir(tmp_path)

    def of(task, names=NAMES, model=MODEL, **facts):
        Path("model").mkdir(exist_ok=True)
        told = {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(names)), **facts}
        Path("model/config.json").write_text(json.dumps(told))
        more = SIGMOID if task.get("kind") == "multilabel" else {}
        Path("demur.yaml").write_text(yaml.safe_dump({"models": {"m": {**model, "task": task, **more}}}))
        return load_config(Path("demur.yaml"))

    return of


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_nobody_writes_what_the_checkpoint_says(load, kind):
    config = load({"kind": kind})
    assert config.models["m"].task.labels == tuple(NAMES)
    again = Config.model_validate(config.model_dump())  # on its way to other processes, which may not have the folder
    assert again.models["m"].task.labels == tuple(NAMES)


def test_of_two_the_second_one_is_positive(load):
    assert load({"kind": "binary"}, ["calm", "worrying"]).models["m"].task.labels == ("calm", "worrying")


def test_a_class_may_go_by_another_name(load):
    task = load({"kind": "multiclass", "rename": {"age_limit": "limit of age"}}).models["m"].task
    assert task.labels == ("activate_my_card", "limit of age", *NAMES[2:])
    config = load({"kind": "multiclass", "rename": {"age_limit": "limit of age"}, "labels": list(task.labels)})
    assert Config.model_validate(config.model_dump()).models["m"].task.labels == task.labels


def test_names_that_say_nothing_can_be_given_a_meaning(load):
    nameless = ["LABEL_0", "LABEL_1"]
    task = {"kind": "multiclass", "rename": {"LABEL_0": "billing", "LABEL_1": "outage"}}
    assert load(task, nameless).models["m"].task.labels == ("billing", "outage")
    assert (
        load({"kind": "multiclass", "labels": ["billing", "outage"]}, nameless).models["m"].task.labels[0] == "billing"
    )


@pytest.mark.parametrize(
    ("task", "names", "said"),
    [
        (
            {"kind": "multiclass"},
            ["LABEL_0", "LABEL_1"],
            "models.m.task.labels: model has no names for 2 of its 2 classes, and LABEL_0 tells a reviewer nothing;"
            ' write what they mean, in this order: labels: ["name of LABEL_0", "name of LABEL_1"]',
        ),
        (
            {"kind": "multiclass", "rename": {"LABEL_0": "billing"}},
            ["LABEL_0", "LABEL_1"],
            "no names for 1 of its 2 classes, and LABEL_1 tells a reviewer nothing; write what they mean, in this"
            ' order: labels: ["billing", "name of LABEL_1"]',
        ),
        (
            {"kind": "multiclass", "rename": {"age_limt": "x"}},
            NAMES,
            "models.m.task.rename.age_limt: model has no such class: 'age_limt' is not one of: activate_my_card,"
            " age_limit, apple_pay_or_google_pay, atm_support, automatic_top_up, balance_not_updated; did you mean"
            " `age_limit`?",
        ),
        (
            {"kind": "binary"},
            NAMES,
            "models.m.task.labels: a binary task has 2 labels, the negative one first; there are 6",
        ),
        ({"kind": "binary"}, ["one"], "has a single output; list two labels, first what speaks against it"),
        ({"kind": "multiclass"}, ["a", "a"], "model has two classes called 'a'; list the labels here"),
        ({"kind": "multiclass", "labels": []}, NAMES, "models.m.task.labels: list the labels of the multiclass task"),
    ],
)
def test_what_the_checkpoint_cannot_say(load, task, names, said):
    with pytest.raises(BadConfig) as refused:
        load(task, names)
    assert said in str(refused.value)
    assert str(refused.value).startswith("demur.yaml, line ")


def test_a_checkpoint_that_is_no_classifier_or_not_there(load, tmp_path):
    with pytest.raises(BadConfig, match="no image or sequence classifier"):
        load({"kind": "multiclass"}, architectures=["BertForMaskedLM"])
    for checkpoint, why in (
        ("nowhere/at/all", "models.m.host.checkpoint: there is no folder nowhere/at/all$"),
        ("~/model", "there is no folder ~/model; write the whole path, since ~ stands for nothing here"),
        ("demur.yaml", "demur.yaml is a file; a checkpoint is the folder that `save_pretrained` of transformers has"),
        (
            "somebody/some-model",
            "there is no folder somebody/some-model, and no model of this name has been fetched from a hub yet, so its"
            " labels cannot be read; fetch it with `hf download somebody/some-model`, or list the labels under `task`",
        ),
    ):
        with pytest.raises(BadConfig, match=why):
            load({"kind": "multiclass"}, model={**MODEL, "host": {"kind": "classifier", "checkpoint": checkpoint}})
    (tmp_path / "model/config.json").write_text('{"auto_map": {"AutoModel": "own.Model"}}')
    with pytest.raises(BadConfig, match=r"model brings code of its own .* which demur never runs"):
        load_in(tmp_path)
    (tmp_path / "model/config.json").write_text("{")
    with pytest.raises(BadConfig, match=r"model has no config\.json that can be read; copy the checkpoint again"):
        load_in(tmp_path)
    (tmp_path / "model/config.json").unlink()
    with pytest.raises(
        BadConfig, match=r"model has no config\.json, so it is no checkpoint of the transformers library"
    ):
        load_in(tmp_path)


def load_in(folder):
    (folder / "demur.yaml").write_text(yaml.safe_dump({"models": {"m": {**MODEL, "task": {"kind": "multiclass"}}}}))
    return load_config(Path("demur.yaml"))


def test_what_was_fetched_from_a_hub_before_is_read(load, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    snapshot = tmp_path / "cache/models--somebody--some-model/snapshots/abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "cache/models--somebody--some-model/refs").mkdir()
    (tmp_path / "cache/models--somebody--some-model/refs/main").write_text("abc")
    facts = {"architectures": ["BertForSequenceClassification"], "id2label": dict(enumerate(NAMES))}
    (snapshot / "config.json").write_text(json.dumps(facts))
    model = {**MODEL, "host": {"kind": "classifier", "checkpoint": "somebody/some-model"}}
    assert load({"kind": "multiclass"}, model=model).models["m"].task.labels == tuple(NAMES)


def test_a_language_model_has_no_labels_of_its_own(load):
    language = {
        **MODEL,
        "host": {"kind": "vllm", "checkpoint": "model"},
        "scores": ["g_nll"],
        "confidence": {"score": "g_nll"},
    }
    with pytest.raises(BadConfig, match=r"models\.m\.task\.labels: list the labels of the multiclass task"):
        load({"kind": "multiclass"}, model=language)
    with pytest.raises(BadConfig, match=r"models\.m\.task\.rename: this is for classifiers"):
        load({"kind": "multiclass", "labels": ["a", "b"], "rename": {"a": "b"}}, model=language)


OWN = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", "b", "c", "d"], None),
        (
            ["b", "a", "c", "d"],
            'task.labels has the labels of x in another order; write them as labels: ["a", "b", "c", "d"]',
        ),
        (
            ["a", "b", "c", "e"],
            "task.labels has other names than x; it lacks: d; these are none of its classes: e. Leave",
        ),
        (
            ["b", "a", "c", "e"],
            "task.labels has other names than x; it lacks: d; these are none of its classes: e. Leave",
        ),
        (["a", "b", "c"], "task.labels lists 3 labels, and x has 4 classes; it lacks: d. Leave"),
        (
            ["a", "b", "c", "d", "e"],
            "task.labels lists 5 labels, and x has 4 classes; these are none of its classes: e.",
        ),
        (["w", "x", "y", "z"], "it lacks: a, b, c, d; these are none of its classes: w, x, y, z."),
    ],
)
def test_labels_are_compared_by_name_and_in_order(labels, said):
    if said is None:
        check_same(labels, OWN, "x")
        return
    with pytest.raises(BadCheckpoint) as refused:
        check_same(labels, OWN, "x")
    assert said in str(refused.value)
    assert 'labels: ["a", "b", "c", "d"]' in str(refused.value)  # which can be pasted


def test_all_names_are_told_however_many_they_are():
    own = [f"intent {number}" for number in range(77)]
    with pytest.raises(BadCheckpoint) as refused:
        check_same(["something else"], own, "x")
    assert f"it lacks: {', '.join(own)};" in str(refused.value)
    line = str(refused.value).split("write them as ")[1].split("; or, where")[0]
    assert yaml.safe_load(line) == {"labels": own}


@pytest.mark.parametrize("own", [["LABEL_0", "LABEL_1"], ["a", "a"]])
def test_where_the_checkpoint_tells_nothing_the_configuration_does(own):
    check_same(["x", "y"], own, "x")


def test_the_names_of_nameless_classes_have_an_order_too():
    with pytest.raises(BadCheckpoint, match="in another order"):
        check_same(["LABEL_1", "LABEL_0"], ["LABEL_0", "LABEL_1"], "x")
