"""Labels that a checkpoint was never trained on, judged by whether a sentence about each follows from the text."""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.hosts.classifier import ZeroShotConfig
from demur.serve.contract.inputs import TextPair
from demur.serve.hosts.checkpoint import NoEmbedding
from demur.serve.hosts.classifier.model import Classifier
from demur.serve.hosts.kinds import check_model, kind_of
from tests.serve.conftest import WORDS, save_tokenizer
from tests.serve.hosts.classifier.test_settings import configured

PLAIN = frozenset({"probabilities"})
ANIMALS = ["cat", "dog", "red"]
TEMPLATE = {"template": "a {}"}


def save_nli(folder, labels):
    """A model of pairs of texts, with large random weights, so that it is sure of what it says."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.8,
        id2label=dict(enumerate(labels)),
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    save_tokenizer(folder)
    return str(folder)


@pytest.fixture(scope="module")
def nli(tmp_path_factory):
    return save_nli(tmp_path_factory.mktemp("nli"), ["contradiction", "neutral", "entailment"])


def loaded(checkpoint, kind="multiclass", labels=ANIMALS, **settings):
    model = configured(checkpoint, labels=labels, task={"kind": kind}, zero_shot=TEMPLATE, **settings)
    return Classifier(model.host, model.task)


def test_logits_are_those_of_the_pairs(nli):
    pairs = Classifier.of_checkpoint(nli, input="text_pair")
    texts = [f"the {word} sat" for word in WORDS[2:]] * 4  # more pairs than go in at a time
    asked = [TextPair(text=text, text_pair=f"a {label}") for text in texts for label in ANIMALS]
    said = pairs.run(asked, PLAIN).logits.reshape(len(texts), 3, 3)
    classifier = loaded(nli)
    assert classifier.spec.kind == "text"
    one = classifier.run(texts, PLAIN)
    np.testing.assert_allclose(one.logits, said[..., 2], atol=1e-4)
    np.testing.assert_allclose(one.probabilities.sum(axis=1), 1)
    assert len(set(one.probabilities.argmax(axis=1))) > 1  # it hangs on the text
    several = loaded(nli, kind="multilabel").run(texts, PLAIN)
    np.testing.assert_allclose(several.logits, said[..., 2] - said[..., 0], atol=1e-4)
    np.testing.assert_allclose(several.probabilities, 1 / (1 + np.exp(said[..., 0] - said[..., 2])), atol=1e-5)


def test_passes_are_taken_for_each_label(tiny_bert, tmp_path):
    folder = save_nli(tmp_path, ["entailment", "not_entailment"])
    classifier = loaded(folder, mc_passes=4)
    output = classifier.run(["a cat", "a dog"], frozenset({"probabilities", "mc_probabilities"}))
    assert output.mc_probabilities.shape == (2, 4, 3)
    np.testing.assert_allclose(output.mc_probabilities[:, 0], output.probabilities, atol=1e-5)  # there is no dropout
    assert loaded(folder, kind="multilabel").run(["a cat"], PLAIN).probabilities.shape == (1, 3)
    with pytest.raises(NoEmbedding, match=r"with host\.zero_shot a text has no embedding"):
        classifier.run(["a"], frozenset({"embedding"}))


def test_what_is_said_of_a_label_is_never_cut(nli):
    tokens = loaded(nli)._texts.about(["cat " * 200], ["a dog"])["input_ids"][0].tolist()
    assert tokens == [WORDS.index("cat")] * 30 + [WORDS.index("a"), WORDS.index("dog")]
    with pytest.raises(BadCheckpoint, match=r"host\.zero_shot: .* tokens, and the model reads 32 with the text"):
        loaded(nli, labels=["cat", "dog " * 20])


def test_other_checkpoints_and_settings_are_refused(nli, tiny_bert, tiny_convnext, tmp_path):
    with pytest.raises(BadCheckpoint, match=r"host\.zero_shot: .* has the labels bad, fair, good, and none of them"):
        check_model(configured(tiny_bert, zero_shot={}))
    with pytest.raises(BadCheckpoint, match=r"host\.zero_shot: this is for texts, and .* takes pictures"):
        check_model(configured(tiny_convnext, zero_shot={}))
    without = save_nli(tmp_path, ["entailment", "neutral", "other"])
    check_model(configured(without, zero_shot={}))
    with pytest.raises(BadCheckpoint, match=r"host\.zero_shot: .* has no label `contradiction`"):
        check_model(configured(without, task={"kind": "multilabel"}, zero_shot={}))
    with pytest.raises(ValueError, match=r"input: with `zero_shot`, a request brings one text"):
        configured(nli, zero_shot={}, input="text_pair")
    with pytest.raises(ValueError, match=r"task\.rename: with `zero_shot` the checkpoint names no labels of yours"):
        configured(nli, zero_shot={}, task={"rename": {"entailment": "yes"}})
    for template in ("no place", "{} and {}", "{0}"):
        with pytest.raises(ValueError, match=r"write one sentence with \{\} in the place of the label"):
            ZeroShotConfig(template=template)


def test_the_template_counts_in_the_fingerprint(nli):
    models = [configured(nli, zero_shot={"template": text}) for text in ("a {}", "the {}")]
    assert len({kind_of(model).fingerprint(model) for model in (*models, configured(nli))}) == 3


def test_labels_are_listed(nli):
    with pytest.raises(ValueError, match=r"task\.labels: with `zero_shot` nobody else names them; list them"):
        configured(nli, labels=None, zero_shot={})
