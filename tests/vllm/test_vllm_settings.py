"""What is set beside the checkpoint, in vLLM itself: an adapter, variables of the chat template, a reasoning parser."""

import asyncio
import json
import shutil
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from safetensors.torch import save_file

from demur.serve.config.checkpoint_facts import BadCheckpoint
from demur.serve.config.hosts.language import VllmHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed
from demur.serve.hosts.language.engines import started
from tests.vllm.conftest import SMALL

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

QUESTION = [{"role": "user", "content": "What is 47 + 85?"}]
THINKING = [{"role": "user", "content": "Work out 47 + 85 + 36."}]
LABELS = ("1", "2", "y")
GREEDY = Asking(max_tokens=80, logprobs=True)


@pytest.fixture(scope="module")
def lora(sums, tmp_path_factory):
    """An adapter of rank 3 as peft saves it, and the checkpoint with the same change added to its weights."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(sums, dtype=torch.float32)
    folder, merged = tmp_path_factory.mktemp("lora"), tmp_path_factory.mktemp("merged")
    weights = {}
    for at, layer in enumerate(model.model.layers):
        for name in ("q_proj", "v_proj"):
            weight = getattr(layer.self_attn, name).weight
            a, b = torch.randn(3, weight.shape[1]) * 0.3, torch.randn(weight.shape[0], 3) * 0.3
            place = f"base_model.model.model.layers.{at}.self_attn.{name}"
            weights |= {f"{place}.lora_A.weight": a, f"{place}.lora_B.weight": b}
            weight.data += 2 * b @ a
    save_file(weights, folder / "adapter_model.safetensors")
    told = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 3, "lora_alpha": 6, "bias": "none"}
    told |= {"target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": sums}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    shutil.copytree(sums, merged, dirs_exist_ok=True)
    model.save_pretrained(merged)
    return folder, str(merged)


@pytest.fixture(scope="module")
def talkative(sums, tmp_path_factory):
    """The small model with a chat template that reads a variable."""
    folder = tmp_path_factory.mktemp("talkative") / "model"
    shutil.copytree(sums, folder)
    own = folder / "chat_template.jinja"
    template = own.read_text() if own.is_file() else json.loads((folder / "tokenizer_config.json").read_text())
    template = template if isinstance(template, str) else template["chat_template"]
    own.write_text("{% if brief is defined and brief %}1 + 1 = {% endif %}" + template)
    return str(folder)


def host(checkpoint, **settings):
    return VllmHost(kind="vllm", checkpoint=str(checkpoint), engine=SMALL, **settings)


@pytest.fixture(scope="module")
def set_up(lora, talkative, loop):
    """One engine with all three."""
    settings = {"adapter": lora[0], "chat_template_kwargs": {"brief": True}, "reasoning_parser": "deepseek_r1"}
    opened = loop.wait(started(host(talkative, **settings)))
    yield opened
    loop.wait(opened.close())


def test_an_adapter_writes_as_the_merged_checkpoint_does(lora, sums, engine, set_up, loop):
    from demur.serve.hosts.language.transformers_engine import TransformersEngine

    brief = [{"role": "user", "content": "7"}]
    merged = TransformersEngine(lora[1], device="cpu")
    plain = loop.wait(engine.label_logprobs(brief, LABELS, first_token=True))
    adapted = loop.wait(set_up.label_logprobs(brief, LABELS, first_token=True))
    assert np.abs(adapted.values - plain.values).max() > 0.1
    assert adapted.prompt_tokens > plain.prompt_tokens  # the variable of the template
    told = merged._template._rendered(brief)
    merged._template._rendered = lambda _: "1 + 1 = " + told
    theirs = asyncio.run(merged.label_logprobs(brief, LABELS, first_token=True))
    asyncio.run(merged.close())
    assert adapted.prompt_tokens == theirs.prompt_tokens
    np.testing.assert_allclose(adapted.values, theirs.values, atol=2e-3)


@pytest.fixture(scope="module")
def parsed(sums, loop):
    opened = loop.wait(started(host(sums, reasoning_parser="deepseek_r1")))
    yield opened
    loop.wait(opened.close())


def test_a_parser_splits_as_vllm_does(engine, parsed, loop):
    """Where the reply has a trace, as demur does by itself; where it has none, the parser takes all for one."""
    [own] = loop.wait(engine.generate(THINKING, GREEDY))
    [theirs] = loop.wait(parsed.generate(THINKING, GREEDY))
    assert own.reasoning
    assert own.text
    assert (theirs.text, theirs.reasoning, theirs.answer_start) == (own.text, own.reasoning, own.answer_start)
    assert theirs.tokens == own.tokens
    [plain] = loop.wait(engine.generate(QUESTION, GREEDY))
    [taken] = loop.wait(parsed.generate(QUESTION, GREEDY))
    if plain.reasoning is None:
        assert (taken.text, taken.reasoning) == ("", plain.text.strip())

    async def pieces():
        return [piece async for piece in parsed.stream(THINKING, GREEDY)]

    *_, last = loop.wait(pieces())
    assert (last.text, last.reasoning, last.whole.text) == (own.text, own.reasoning, own.text)


def test_a_constrained_reply_is_all_answer(parsed, loop):
    [reply] = loop.wait(parsed.generate(QUESTION, Asking(max_tokens=8, only=("1", "3"))))
    assert reply.text in ("1", "3")


def engines():
    """The processes of engines that are running."""
    children = psutil.Process().children(recursive=True)
    found = set()
    for one in children:
        with suppress(psutil.NoSuchProcess):  # it ended while it was looked at
            if "EngineCor" in one.name() and one.status() != psutil.STATUS_ZOMBIE:
                found.add(one)
    return found


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"reasoning_parser": "deepseek-r1"}, BadCheckpoint, "is not one of: .*deepseek_r1"),
        ({"reasoning_parser": "openai_gptoss"}, BadCheckpoint, "openai_gptoss does not work with this checkpoint"),
        ({"pictures": 1}, CannotGive, "reads texts alone"),
        ({"chat_template_kwargs": {"breif": True}}, BadCheckpoint, "reads no variable of this name"),
    ],
)
def test_what_cannot_be_set_is_refused(sums, loop, settings, error, words):
    before = engines()
    with pytest.raises(error, match=words):
        loop.wait(started(host(sums, **settings)))
    end = time.monotonic() + 60
    while engines() - before:
        assert time.monotonic() < end, "an engine is left behind"
        time.sleep(0.1)


def test_folders_that_hold_no_adapter(sums, tmp_path, loop, lora):
    with pytest.raises(BadCheckpoint, match=r"host\.adapter"):
        loop.wait(started(host(sums, adapter=tmp_path)))
    with pytest.raises(BadCheckpoint, match=r"host\.adapter"):
        loop.wait(started(host(sums, adapter=Path(sums))))
    odd = tmp_path / "odd"
    shutil.copytree(lora[0], odd)
    told = json.loads((odd / "adapter_config.json").read_text())
    (odd / "adapter_config.json").write_text(json.dumps({**told, "use_dora": True}))
    with pytest.raises((BadCheckpoint, CannotGive, EngineFailed)):
        loop.wait(started(host(sums, adapter=odd)))
