"""Adapters that were trained for another checkpoint, told before anything is loaded."""

import re

import numpy as np
import pytest
from safetensors.numpy import save_file

from demur.serve.commands.adapter_trial import why_no_fit
from demur.serve.commands.checkpoint_trial import try_checkpoint
from demur.serve.config.file import Config

LAYER = "bert.encoder.layer.0.attention.self.query"


@pytest.fixture
def folders(tmp_path):
    """An adapter and a checkpoint, of weights with these sizes."""

    def made(layer, small, large, **there):
        for name, weights in (
            ("adapter/adapter_model", {f"{layer}.lora_A.weight": small, f"{layer}.lora_B.weight": large}),
            ("checkpoint/model", {name.replace("__", "."): shape for name, shape in there.items()}),
        ):
            (tmp_path / name).parent.mkdir()
            prefix = "base_model.model." if "adapter" in name else ""
            arrays = {prefix + key: np.zeros(shape, dtype="f4") for key, shape in weights.items()}
            save_file(arrays, tmp_path / f"{name}.safetensors")
        return tmp_path / "adapter", tmp_path / "checkpoint"

    return made


WEIGHT = f"{LAYER}.weight".replace(".", "__")


@pytest.mark.parametrize(
    ("small", "large", "there", "why"),
    [
        ((2, 16), (16, 2), {WEIGHT: (16, 16)}, ""),
        ((2, 16), (48, 2), {WEIGHT: (16, 48)}, ""),  # some layers are stored the other way round
        ((2, 16), (16, 2), {WEIGHT.removeprefix("bert__"): (16, 16)}, ""),  # a checkpoint without a head
        ((2, 16), (16, 2), {f"model__{WEIGHT}": (16, 16)}, ""),
        ((2, 16), (16, 2), {}, ""),  # weights that are no safetensors
        ((2, 16), (16, 2), {WEIGHT: (32, 32)}, f"changes {LAYER} as one of 16 x 16 numbers, and .* has 32 x 32"),
        ((2, 16), (16, 2), {"model__layers__0__mlp__weight": (16, 16)}, f"it changes {LAYER}, which .* does not have"),
    ],
)
def test_an_adapter_fits_its_checkpoint_or_says_why_not(folders, small, large, there, why):
    adapter, checkpoint = folders(LAYER, small, large, **there)
    told = why_no_fit(adapter, checkpoint)
    if why:
        assert re.search(f"is for another model: .*{why}", told)
    else:
        assert told == ""


def test_check_names_the_key(folders, tiny_bert, tmp_path):
    """`tiny_bert` has 16 numbers in each layer."""
    adapter, _ = folders(LAYER, (2, 64), (64, 2))
    (adapter / "adapter_config.json").write_text('{"peft_type": "LORA", "task_type": "SEQ_CLS", "r": 2}')
    host = {"kind": "classifier", "checkpoint": str(tiny_bert), "adapter": str(adapter)}
    section = {
        "task": {"kind": "multiclass", "labels": ["bad", "fair", "good"]},
        "host": host,
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
    }
    config = Config.model_validate({"artifacts": str(tmp_path), "models": {"words": section}})
    (wrong,) = try_checkpoint("words", config.models["words"], offline=True)
    assert wrong.steps == ("models", "words", "host", "adapter")
    assert "has 16 x 16" in wrong.text
