"""The network of a classifier: its checkpoint, its adapter, and the numbers that it computes with."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification

from demur.serve.config.adapter_facts import WEIGHTS
from demur.serve.config.checkpoint_facts import BadCheckpoint, CheckpointFacts
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.hosts.checkpoint import classifier_facts, first_line, local_folder

CANNOT_BE_LOADED = (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError)
"""What transformers and peft raise where files are broken or do not belong together."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """A model on its device, and what is known of it."""

    module: Any
    folder: Path
    facts: CheckpointFacts
    device: torch.device


def load_network(host: ClassifierHost) -> Network:
    """Load a classifier as it is configured. Raises `BadCheckpoint`."""
    folder = local_folder(host.checkpoint, host.revision)
    facts = classifier_facts(host, folder)
    device = device_of(host.device)
    if device.type == "cpu" and host.dtype == "float16":
        raise BadCheckpoint("host.dtype: float16 is for GPUs, and there is none here; write float32 or bfloat16")
    module, missing = _load(folder, facts, "auto" if host.dtype == "auto" else getattr(torch, host.dtype))
    if host.adapter is not None:
        module = with_adapter(module, host.adapter)
        missing -= _own_weights(host.adapter)
    if missing:  # transformers would go on with random numbers in their place
        raise BadCheckpoint(f"{folder} lacks weights of its model: {', '.join(sorted(missing)[:5])}")
    if device.type == "cpu" and module.dtype == torch.float16:
        module = module.float()
    return Network(module=module.to(device).eval(), folder=folder, facts=facts, device=device)


def _load(folder: Path, facts: CheckpointFacts, dtype: Any) -> tuple[Any, set[str]]:
    """The model of a checkpoint, and the weights that it lacks."""
    auto = AutoModelForImageClassification if facts.kind == "image" else AutoModelForSequenceClassification
    head = {"num_labels": len(facts.labels)} if facts.head_is_new else {}
    try:
        model, found = auto.from_pretrained(folder, output_loading_info=True, dtype=dtype, **head)
    except CANNOT_BE_LOADED as error:
        raise BadCheckpoint(f"{folder} cannot be loaded: {first_line(error)}") from error
    return model, set(found["missing_keys"])


def with_adapter(model: nn.Module, adapter: Path) -> Any:
    """Return the model with what an adapter changes added to its own weights. Raises `BadCheckpoint`."""
    try:
        from peft import PeftModel, get_peft_model_state_dict
    except ImportError:
        raise BadCheckpoint("host.adapter: the package peft is missing: pip install 'demur[lora]'") from None
    try:
        with warnings.catch_warnings(action="ignore"):  # about weights that are missing: that is looked at below
            wrapped = PeftModel.from_pretrained(model, adapter)
        known = set(get_peft_model_state_dict(wrapped))
        if known != (brought := set(_names_in(adapter))):
            differing = ", ".join(sorted(known ^ brought)[:3])
            raise ValueError(f"it was trained on another model: {differing}")
        return wrapped.merge_and_unload(safe_merge=True)
    except CANNOT_BE_LOADED as error:
        raise BadCheckpoint(f"host.adapter: {adapter} cannot be put on the checkpoint: {first_line(error)}") from error


def _names_in(adapter: Path) -> list[str]:
    with safe_open(adapter / WEIGHTS, framework="np") as weights:
        return list(weights.keys())


def _own_weights(adapter: Path) -> set[str]:
    """Weights of the model that an adapter brings as a whole, such as those of the classification head."""
    return {name.removeprefix("base_model.model.") for name in _names_in(adapter)}


def compiled(module: Any) -> Any:
    """Return a module as torch compiles it. The work is done when it is first asked."""
    return torch.compile(module, dynamic=True)


def no_compiler(error: Exception) -> BadCheckpoint:
    """Return what to say where torch cannot compile a model."""
    return BadCheckpoint(
        f"host.compile: torch cannot compile this model here ({first_line(error)[:200]}); install a C++ compiler (g++),"
        " for a GPU also triton, or leave `compile` out"
    )


def device_of(setting: str) -> torch.device:
    """Return the device that `host.device` stands for, and prepare torch for it.

    On some NVIDIA GPUs torch prefers cuDNN's attention for numbers of 16 bits. It builds a plan for every size of a
    batch that it meets, and texts come in hundreds of sizes: 0.1 seconds each on an H100. torch's other kernels need no
    plan.
    """
    device = torch.device(best_device() if setting == "auto" else setting)
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def best_device() -> str:
    """Return the device that `auto` stands for."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
