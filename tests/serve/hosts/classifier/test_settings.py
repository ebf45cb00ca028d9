"""What a classifier can be told beside its checkpoint: pairs, an adapter, a number type, a revision, a compiler."""

import json
import shutil

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file, save_file
from transformers import AutoModelForSequenceClassification, BertConfig, BertForMaskedLM

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.contract.inputs import TextPair
from demur.serve.hosts.classifier.model import Classifier
from demur.serve.hosts.kinds import check_model, kind_of
from tests.serve.conftest import LABELS, WORDS, save_tokenizer

TEXTS = ["the cat sat", "a dog ran fast fast fast", "red"]
OWN = tuple(LABELS.values())
PLAIN = frozenset({"probabilities"})
EVERYTHING = frozenset({"probabilities", "embedding", "mc_probabilities"})


def configured(checkpoint, labels=OWN, task=None, **settings):
    score = "binary_entropy" if (task or {}).get("kind") == "multilabel" else "entropy"
    return ModelConfig.model_validate(
        {
            "task": {"kind": "multiclass", **({"labels": list(labels)} if labels else {}), **(task or {})},
            "host": {"kind": "classifier", "checkpoint": checkpoint, **settings},
            "scores": [score],
            "confidence": {"score": score},
            "policy": {"kind": "threshold", "limit": 0.5},
        }
    )


def loaded(checkpoint, **settings):
    model = configured(checkpoint, **settings)
    return Classifier(model.host, model.task)


@pytest.fixture(scope="module")
def lora(tiny_bert, tmp_path_factory):
    """An adapter that turns most answers of the tiny model into `good`, with a head of its own."""
    torch.manual_seed(1)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_bert)
    wrapped = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", r=2, target_modules=["query", "value"]))
    with torch.no_grad():
        for name, weights in wrapped.named_parameters():
            if "lora_B" in name:
                weights.normal_(std=0.5)
            if "modules_to_save" in name and name.endswith("bias"):
                weights.copy_(torch.tensor([0.0, 0.0, 5.0]))
    folder = tmp_path_factory.mktemp("lora")
    wrapped.save_pretrained(folder)
    return folder


def test_a_pair_is_tokenised_as_a_pair(tiny_bert):
    classifier = loaded(tiny_bert, input="text_pair", mc_passes=3)
    assert classifier.spec.kind == "text_pair"
    pairs = [TextPair(text="the cat", text_pair="sat"), TextPair(text="sat", text_pair="the cat")]
    output = classifier.run([*pairs, classifier.example()], EVERYTHING)
    assert output.mc_probabilities.shape == (3, 3, 3)
    assert output.embedding.shape == (3, 16)
    alone = classifier.run(pairs[:1], PLAIN)
    np.testing.assert_allclose(alone.probabilities[0], output.probabilities[0], atol=1e-5)
    assert np.abs(output.probabilities[0] - output.probabilities[1]).max() > 1e-6  # which comes first matters
    long = classifier.run([TextPair(text="cat " * 500, text_pair="dog " * 500)], PLAIN)
    assert np.isfinite(long.probabilities).all()


def test_an_adapter_changes_the_answers_and_counts_in_the_fingerprint(tiny_bert, lora):
    plain, adapted = loaded(tiny_bert), loaded(tiny_bert, adapter=str(lora), mc_passes=3)
    before, after = plain.run(TEXTS, PLAIN), adapted.run(TEXTS, EVERYTHING)
    assert (after.probabilities.argmax(axis=1) == 2).all()
    assert np.abs(before.probabilities - after.probabilities).max() > 0.1
    assert after.embedding.shape == (3, 16)
    assert after.mc_probabilities.std(axis=1).min() > 0
    prints = [fingerprint_of(tiny_bert), fingerprint_of(tiny_bert, adapter=str(lora))]
    assert len(set(prints)) == 2
    path = lora / "adapter_config.json"
    path.write_text(path.read_text() + " ")
    assert fingerprint_of(tiny_bert, adapter=str(lora)) not in prints


def fingerprint_of(checkpoint, **settings):
    model = configured(checkpoint, **settings)
    return kind_of(model).fingerprint(model)


def test_what_changes_the_output_changes_the_fingerprint_and_defaults_do_not(tiny_bert):
    prints = [
        fingerprint_of(tiny_bert, **told)
        for told in ({}, {"dtype": "bfloat16"}, {"input": "text_pair"}, {"dtype": "float32"})
    ]
    assert len(set(prints)) == 4
    assert fingerprint_of(tiny_bert, dtype="auto", input="text", mc_passes=3, compile=True) == prints[0]


def test_a_checkpoint_without_a_head_gets_that_of_its_adapter(tmp_path):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    BertForMaskedLM(config).save_pretrained(base)
    save_tokenizer(base)
    model = AutoModelForSequenceClassification.from_pretrained(base, num_labels=4)
    settings = LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["query"], modules_to_save=["classifier", "bert.pooler.dense"]
    )
    wrapped = get_peft_model(model, settings)
    wrapped.save_pretrained(adapter)
    labels = ["a", "b", "c", "d"]
    mine = loaded(str(base), labels=labels, adapter=str(adapter)).run(TEXTS, PLAIN)
    tokens = loaded(str(base), labels=labels, adapter=str(adapter))._texts.of(TEXTS)
    with torch.inference_mode():
        logits = wrapped.eval()(**tokens).logits
    np.testing.assert_allclose(mine.logits, logits, atol=1e-5)
    with pytest.raises(BadCheckpoint, match=r"holds BertForMaskedLM, which is no image or sequence classifier"):
        loaded(str(base), labels=labels)
    with pytest.raises(BadCheckpoint, match=r"lists 3 labels, and .* has 4 classes"):
        loaded(str(base), labels=labels[:3], adapter=str(adapter))
    with pytest.raises(ValueError, match=r"has no names for 4 of its 4 classes"):
        ModelConfig.model_validate(
            {
                "task": {"kind": "multiclass"},
                "host": {"kind": "classifier", "checkpoint": str(base), "adapter": str(adapter)},
                "scores": ["entropy"],
                "confidence": {"score": "entropy"},
                "policy": {"kind": "threshold", "limit": 0.5},
            }
        )


def test_adapters_that_cannot_be_used_are_told_apart(tiny_bert, tiny_llama, lora, tmp_path):
    def check(folder):
        check_model(configured(tiny_bert, adapter=str(folder)))

    with pytest.raises(BadCheckpoint, match=r"host\.adapter: there is no folder .*/none"):
        check(tmp_path / "none")
    with pytest.raises(BadCheckpoint, match=r"host\.adapter: .* has no adapter_config\.json that can be read"):
        check(tmp_path)
    other = tmp_path / "other"
    shutil.copytree(lora, other)
    description = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**description, "peft_type": "IA3"}))
    with pytest.raises(BadCheckpoint, match=r"an adapter of the kind IA3; only LORA is served"):
        check(other)
    (other / "adapter_config.json").write_text("[1]")
    with pytest.raises(BadCheckpoint, match=r"an adapter of the kind None"):
        check(other)
    (other / "adapter_config.json").write_text(json.dumps(description))
    weights = (other / "adapter_model.safetensors").read_bytes()
    (other / "adapter_model.safetensors").write_bytes(weights[:100])
    with pytest.raises(BadCheckpoint, match=r"adapter_model\.safetensors cannot be read"):
        check(other)
    (other / "adapter_model.safetensors").unlink()
    (other / "adapter_model.bin").write_bytes(b"a pickle")
    with pytest.raises(BadCheckpoint, match=r"save it as safetensors; other files may hold code"):
        check(other)
    with pytest.raises(BadCheckpoint, match=r"host\.adapter: .* cannot be put on the checkpoint"):
        loaded(tiny_llama, adapter=str(lora))  # of another architecture


def test_an_adapter_that_lacks_weights_is_refused(tiny_bert, lora, tmp_path):
    shutil.copytree(lora, tmp_path / "lora")
    path = tmp_path / "lora/adapter_model.safetensors"
    save_file({name: one for name, one in load_file(path).items() if "layer.1" not in name}, path)
    with pytest.raises(BadCheckpoint, match=r"cannot be put on the checkpoint: .*layer\.1"):
        loaded(tiny_bert, adapter=str(tmp_path / "lora"))


def test_the_model_computes_with_the_numbers_that_are_configured(tiny_bert, tiny_convnext):
    full, half = loaded(tiny_bert), loaded(tiny_bert, dtype="bfloat16", mc_passes=3)
    assert half._model.dtype == torch.bfloat16
    outputs = [model.run(TEXTS, PLAIN).probabilities for model in (full, half)]
    assert 0 < np.abs(outputs[0] - outputs[1]).max() < 0.02
    everything = half.run(TEXTS, EVERYTHING)
    assert everything.embedding.dtype == np.float64
    assert everything.mc_probabilities.std(axis=1).min() > 0
    picture = np.random.default_rng(0).random((3, 32, 32), "f")
    assert loaded(tiny_convnext, dtype="bfloat16").run([picture], EVERYTHING).embedding.shape == (1, 16)


def test_float16_is_for_gpus(tiny_bert, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"dtype: float16 is for GPUs; on a CPU, write float32 or bfloat16"):
        ClassifierHost(kind="classifier", checkpoint=tiny_bert, dtype="float16", device="cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(BadCheckpoint, match=r"host\.dtype: float16 is for GPUs, and there is none here"):
        loaded(tiny_bert, dtype="float16")
    saved = tmp_path / "half"
    AutoModelForSequenceClassification.from_pretrained(tiny_bert).half().save_pretrained(saved)
    save_tokenizer(saved)
    assert loaded(str(saved), device="cpu")._model.dtype == torch.float32


def test_a_revision_is_for_a_hub(tiny_bert):
    with pytest.raises(ValueError, match=r"revision: it is for a checkpoint on a hub, and .* is a folder"):
        ClassifierHost(kind="classifier", checkpoint=tiny_bert, revision="main")
    assert ClassifierHost(kind="classifier", checkpoint="owner/name", revision="v1").revision == "v1"


def test_the_hub_is_asked_for_the_revision(tiny_bert, monkeypatch):
    asked = []

    def download(name, *, revision, allow_patterns):
        asked.append((name, revision))
        return tiny_bert

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    loaded("owner/name", revision="v1.2")
    assert set(asked) == {("owner/name", "v1.2")}


def test_inputs_that_a_model_does_not_take_are_refused(tiny_convnext):
    with pytest.raises(BadCheckpoint, match=r"host\.input: this is for texts, and .* takes pictures"):
        check_model(configured(tiny_convnext, input="text_pair"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_a_compiled_model_says_what_the_plain_one_says(tiny_bert):
    plain, fast = loaded(tiny_bert), loaded(tiny_bert, compile=True, mc_passes=3)
    for texts in (TEXTS, TEXTS[:1], TEXTS * 5, ["cat " * 30]):
        np.testing.assert_allclose(fast.run(texts, PLAIN).logits, plain.run(texts, PLAIN).logits, atol=1e-4)
    assert fast.run(TEXTS, EVERYTHING).embedding.shape == (3, 16)


def test_without_a_compiler_it_is_said_what_to_do(tiny_bert, monkeypatch):
    def compiled(*_, **__):
        def plain(**_):
            raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.\nmore")

        return plain

    monkeypatch.setattr(torch, "compile", compiled)
    with pytest.raises(BadCheckpoint, match=r"host\.compile: .*\(Failed to find C compiler.*\); install a C\+\+"):
        loaded(tiny_bert, compile=True)
