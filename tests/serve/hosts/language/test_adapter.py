"""What a language model can be told beside its checkpoint: a LoRA adapter, and variables of its chat template."""

import asyncio
import json
import shutil

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.language import TransformersHost, VllmHost
from demur.serve.contract.engine import Asking
from demur.serve.hosts.language.adapter import lora_arguments
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.kind import ENDPOINT, LANGUAGE
from tests.serve.scripted import settings

QUESTION = [{"role": "user", "content": "What is 47 + 85?"}]
LABELS = ["1", "2", "yes"]


@pytest.fixture(scope="module")
def lora(sums, tmp_path_factory):
    """An adapter that changes what the small model writes."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(sums, dtype=torch.float32)
    wrapped = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=3, target_modules=["q_proj", "v_proj"]))
    with torch.no_grad():
        for name, weights in wrapped.named_parameters():
            if "lora_" in name:
                weights.normal_(0.0, 0.3)
    folder = tmp_path_factory.mktemp("lora")
    wrapped.save_pretrained(folder)
    return folder


@pytest.fixture
def talkative(sums, tmp_path):
    """The small model with a chat template that reads a variable."""
    folder = tmp_path / "talkative"
    shutil.copytree(sums, folder)
    told = json.loads((folder / "tokenizer_config.json").read_text())
    own = folder / "chat_template.jinja"
    template = own.read_text() if own.is_file() else told["chat_template"]
    own.write_text("{% if brief is defined and brief %}1 + 1 = {% endif %}" + template)
    return str(folder)


def configured(kind="transformers", **host):
    host = {"kind": kind, "device": "cpu", **host} if kind == "transformers" else {"kind": kind, **host}
    return ModelConfig.model_validate(settings("binary", host=host))


def read_by(checkpoint, **how):
    """The prompt's length, and [C] log-probabilities of labels, as a model here tells them."""

    async def read():
        engine = await started(TransformersHost(kind="transformers", checkpoint=checkpoint, device="cpu", **how))
        try:
            [reply] = await engine.generate(QUESTION, Asking(max_tokens=1))
            told = await engine.label_logprobs(QUESTION, LABELS, first_token=True)
        finally:
            await engine.close()
        return reply.prompt_tokens, told.values

    return asyncio.run(read())


def test_an_adapter_changes_what_is_written_as_peft_does(sums, lora):

    _, plain = read_by(sums)
    _, adapted = read_by(sums, adapter=lora)
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(sums, dtype=torch.float32), lora).eval()
    tokenizer = AutoTokenizer.from_pretrained(sums)
    ids = tokenizer.apply_chat_template(QUESTION, add_generation_prompt=True, return_dict=True)["input_ids"]
    first = [tokenizer.encode(label, add_special_tokens=False)[0] for label in LABELS]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(dim=0)[first].numpy()
    np.testing.assert_allclose(adapted, expected, atol=1e-3)
    assert np.abs(adapted - plain).max() > 0.1


@pytest.mark.parametrize("kind", ["transformers", "vllm"])
def test_adapter_and_variables_count_in_the_fingerprint(sums, lora, tmp_path, kind):
    other = tmp_path / "other"
    shutil.copytree(lora, other)
    description = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**description, "lora_alpha": 99}))
    further = (
        {},
        {"adapter": str(lora)},
        {"adapter": str(other)},
        {"chat_template_kwargs": {"brief": True}},
        {"chat_template_kwargs": {"brief": False}},
    )
    prints = [LANGUAGE.fingerprint(configured(kind, checkpoint=sums, **told)) for told in further]
    assert len(set(prints)) == len(prints)
    assert prints[0] == LANGUAGE.fingerprint(configured(kind, checkpoint=sums, adapter=None, chat_template_kwargs={}))


def test_variables_count_in_the_fingerprint_of_an_endpoint():
    host = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
    told = [{}, {"chat_template_kwargs": {"brief": True}}, {"chat_template_kwargs": {"brief": False}}]
    prints = [ENDPOINT.fingerprint(configured("openai", **host, **further)) for further in told]
    assert len(set(prints)) == 3
    assert prints[0] == ENDPOINT.fingerprint(configured("openai", **host, chat_template_kwargs={}))


def test_variables_reach_the_chat_template(talkative):
    plain, brief, not_brief = (
        read_by(talkative, chat_template_kwargs=told)[0] for told in ({}, {"brief": True}, {"brief": False})
    )
    assert brief > plain == not_brief


def test_a_variable_that_the_template_does_not_read_is_refused(sums):
    with pytest.raises(BadCheckpoint, match=r"host\.chat_template_kwargs\.breif: the chat template of .* reads no"):
        read_by(sums, chat_template_kwargs={"breif": True})


@pytest.mark.parametrize("name", ["tokenize", "messages", "chat_template", "add_generation_prompt"])
def test_what_demur_sets_itself_is_no_variable(name):
    with pytest.raises(ValueError, match=f"{name}: demur sets this itself"):
        VllmHost(kind="vllm", checkpoint="m", chat_template_kwargs={name: 1})


def test_an_endpoint_takes_no_adapter_and_variables_once():
    host = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    with pytest.raises(ValueError, match="an endpoint loads its own adapters; leave this out"):
        OpenAIHost.model_validate({**host, "adapter": "lora"})
    twice = {"chat_template_kwargs": {"brief": True}, "extra_body": {"chat_template_kwargs": {"brief": False}}}
    with pytest.raises(ValueError, match="leave out one of the two"):
        OpenAIHost.model_validate({**host, **twice})


def test_vllm_makes_room_for_the_rank_of_the_adapter(lora, tmp_path):
    assert lora_arguments(None) == {}
    assert lora_arguments(lora) == {"enable_lora": True, "max_loras": 1, "max_lora_rank": 8}
    description = json.loads((lora / "adapter_config.json").read_text())
    other = tmp_path / "other"
    shutil.copytree(lora, other)

    def changed(**told):
        (other / "adapter_config.json").write_text(json.dumps({**description, **told}))
        return lora_arguments(other)

    assert changed(r=64)["max_lora_rank"] == 64
    assert changed(r=65)["max_lora_rank"] == 128
    for rank in (513, 0, -1, None, "8"):
        with pytest.raises(BadCheckpoint, match=r"vLLM takes 1 to 512; merge it into the checkpoint"):
            changed(r=rank)
    assert changed(rank_pattern={"q_proj": 16})["max_lora_rank"] == 16


def test_an_adapter_of_a_classifier_is_refused_before_anything_is_loaded(sums, lora, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(lora, other)
    description = json.loads((other / "adapter_config.json").read_text())
    (other / "adapter_config.json").write_text(json.dumps({**description, "task_type": "SEQ_CLS"}))
    for kind in ("transformers", "vllm"):
        with pytest.raises(BadCheckpoint, match=r"host\.adapter: .* was trained for a classifier"):
            LANGUAGE.check(configured(kind, checkpoint=sums, adapter=str(other)))
        LANGUAGE.check(configured(kind, checkpoint=sums, adapter=str(lora)))
        assert not LANGUAGE.is_here(configured(kind, checkpoint=sums, adapter=str(tmp_path / "none")))
