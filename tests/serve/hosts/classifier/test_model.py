import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec
from demur.serve.hosts.checkpoint import fingerprint
from demur.serve.hosts.classifier.model import Classifier
from tests.conftest import ROOT, digit_rows

DIGITS = str(ROOT / "deploy/models/digits")
TEXTS = ["the cat sat", "a dog ran fast fast fast", "red"]
EVERYTHING = frozenset({"probabilities", "embedding", "mc_probabilities"})


def test_the_digits_model_keeps_its_word(digits):
    rows = digit_rows(digits)
    images = [np.asarray(row["input"], dtype=np.float32)[None] for row in rows]
    output = Classifier.of_checkpoint(DIGITS).run(images, frozenset({"probabilities"}))
    right = output.probabilities.argmax(axis=1) == [int(row["label"]) for row in rows]
    assert right.mean() >= 0.97
    assert sum(path.stat().st_size for path in (ROOT / "deploy/models/digits").glob("*.*")) < 1_000_000


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama", "tiny_convnext"])
def test_any_classifier_gives_what_is_asked_for_and_no_more(model, request):
    classifier = Classifier.of_checkpoint(request.getfixturevalue(model), mc_passes=4)
    inputs = TEXTS if classifier.spec.kind == "text" else list(np.random.default_rng(0).random((3, 3, 32, 32), "f"))
    plain = classifier.run(inputs, frozenset({"probabilities"}))
    assert plain.embedding is None
    assert plain.mc_probabilities is None
    full = classifier.run(inputs, EVERYTHING)
    assert full.embedding.shape == (3, 16)
    assert full.mc_probabilities.shape == (3, 4, 3)
    np.testing.assert_allclose(full.probabilities, plain.probabilities, atol=1e-6)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama"])
def test_a_text_is_judged_alike_alone_and_padded(model, request):
    classifier = Classifier.of_checkpoint(request.getfixturevalue(model), mc_passes=4)
    together = classifier.run(TEXTS, frozenset({"probabilities", "embedding"}))
    for i, text in enumerate(TEXTS):
        alone = classifier.run([text], frozenset({"probabilities", "embedding"}))
        np.testing.assert_allclose(alone.probabilities[0], together.probabilities[i], atol=1e-5)
        np.testing.assert_allclose(alone.embedding[0], together.embedding[i], atol=1e-5)


@pytest.mark.parametrize("model", ["tiny_bert", "tiny_llama", "tiny_convnext"])
def test_the_embedding_is_what_the_head_was_given(model, request):
    classifier = Classifier.of_checkpoint(request.getfixturevalue(model), mc_passes=4)
    output = classifier.run([classifier.example()] * 2, frozenset({"probabilities", "embedding"}))
    logits = classifier._head(torch.tensor(output.embedding, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(logits, output.logits, atol=1e-5)


def test_dropout_passes_differ_and_the_plain_pass_does_not(tiny_bert):
    classifier = Classifier.of_checkpoint(tiny_bert, mc_passes=7)
    first, second = (classifier.run(TEXTS * 50, EVERYTHING) for _ in range(2))
    assert first.mc_probabilities.shape == (150, 7, 3)  # more rows than fit into one forward pass
    assert first.mc_probabilities.std(axis=1).min() > 0
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    assert not np.array_equal(first.mc_probabilities[0], first.mc_probabilities[3])  # the same text, other masks


def test_images_of_another_size_are_resized(tiny_convnext):
    classifier = Classifier.of_checkpoint(tiny_convnext)
    assert classifier.spec == InputSpec(kind="image", channels=3, height=32, width=32)
    images = [np.random.default_rng(0).random(shape, "f") for shape in ((3, 32, 32), (3, 40, 50))]
    assert classifier.run(images, frozenset({"probabilities"})).probabilities.shape == (2, 3)


WRONG_LABELS = (
    (["bad", "good"], "lists 2 labels, and .* has 3 classes; it lacks: fair"),
    (["good", "fair", "bad"], r'in another order; write them as labels: \["bad", "fair", "good"\]'),
    (["bad", "fare", "good"], 'lacks: fair; these are none of its classes: fare.* rename: {"fair": "fare"}'),
    (["fair", "bad", "goood"], "lacks: good; these are none of its classes: goood"),  # swapped, and misspelt as well
    (["rot", "mittel", "gut"], "it lacks: bad, fair, good; these are none of its classes: rot, mittel, gut"),
)


def test_labels_must_be_those_of_the_checkpoint(tiny_bert):
    Classifier(*hosted(tiny_bert, ["bad", "fair", "good"]))
    other_names = {"bad": "rot", "fair": "mittel", "good": "gut"}  # which is a matter of taste, and is to be said
    Classifier(*hosted(tiny_bert, ["rot", "mittel", "gut"], rename=other_names))
    for labels, why in WRONG_LABELS:
        with pytest.raises(BadCheckpoint, match=why):
            Classifier(*hosted(tiny_bert, labels))
    with pytest.raises(BadCheckpoint, match=r"task\.rename\.baad: .* has no such class: .*; did you mean `bad`"):
        Classifier(*hosted(tiny_bert, ["rot", "fair", "good"], rename={"baad": "rot"}))


def hosted(checkpoint, labels, **more):
    """A host with its task, as they are configured."""
    host = ClassifierHost(kind="classifier", checkpoint=str(checkpoint))
    return host, TaskConfig.model_validate({"kind": "multiclass", "labels": labels, **more})


def load(checkpoint):
    Classifier(*hosted(checkpoint, ["bad", "fair", "good"]))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"architectures": ["BertForMaskedLM"]}, "no image or sequence classifier"),
        ({"problem_type": "multi_label_classification"}, "which is a `multilabel` task, and this is a multiclass task"),
        ({"model_type": "unheard-of"}, "cannot be loaded"),
    ],
)
def test_other_checkpoints_are_refused(tiny_bert, tmp_path, change, why):
    shutil.copytree(tiny_bert, tmp_path / "model")
    path = tmp_path / "model/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BadCheckpoint, match=why):
        load(str(tmp_path / "model"))


def test_a_config_that_is_not_json_is_refused(tmp_path):
    with pytest.raises(BadCheckpoint, match=r"has no config\.json"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"id2label": [')
    with pytest.raises(BadCheckpoint, match=r"has no config\.json"):
        load(tmp_path)


def test_weights_that_are_missing_are_not_made_up(tiny_bert, tmp_path):
    shutil.copytree(tiny_bert, tmp_path / "model")
    path = str(tmp_path / "model/model.safetensors")
    weights = load_file(path)
    save_file({name: tensor for name, tensor in weights.items() if name != "classifier.weight"}, path, {"format": "pt"})
    with pytest.raises(BadCheckpoint, match=r"lacks weights of its model: classifier\.weight"):
        Classifier.of_checkpoint(str(tmp_path / "model"))


def test_weights_that_broke_off_are_refused(tiny_bert, tmp_path):
    shutil.copytree(tiny_bert, tmp_path / "model")
    path = tmp_path / "model/model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadCheckpoint, match="cannot be loaded"):
        Classifier.of_checkpoint(str(tmp_path / "model"))


def test_a_name_that_is_nothing_is_refused():
    with pytest.raises(
        BadCheckpoint, match="there is no folder no/such-model, and no hub hands out a model of this name"
    ):
        Classifier.of_checkpoint("no/such-model")


def test_the_fingerprint_changes_with_weights_and_labels(tiny_bert, tmp_path):
    shutil.copytree(tiny_bert, tmp_path / "model")
    before = fingerprint(tmp_path / "model")
    assert before == fingerprint(tmp_path / "model")
    (tmp_path / "model/README.md").write_text("words about it")
    assert before == fingerprint(tmp_path / "model")
    config = tmp_path / "model/config.json"
    config.write_text(config.read_text().replace("fair", "fine"))
    assert before != fingerprint(tmp_path / "model")
