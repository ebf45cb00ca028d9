"""A LoRA adapter on top of a language model: what must hold of its files, and what vLLM is told of it."""

from pathlib import Path
from typing import Any

from demur.serve.config.adapter_facts import read_adapter
from demur.serve.config.checkpoint_facts import AdapterFacts, BadCheckpoint

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for `max_lora_rank`."""


def check_adapter(adapter: Path | None) -> AdapterFacts | None:
    """Return what an adapter says about itself, where there is one. Raises `BadCheckpoint` unless it is for models that
    write."""
    facts = read_adapter(adapter)
    if facts is not None and (facts.for_texts or facts.outputs is not None):
        raise BadCheckpoint(
            f"host.adapter: {adapter} was trained for a classifier; serve it with `kind: classifier`, or name an"
            " adapter of a language model"
        )
    return facts


def lora_arguments(adapter: Path | None) -> dict[str, Any]:
    """Return the arguments with which vLLM's engine makes room for an adapter; none where there is none. Raises
    `BadCheckpoint`."""
    facts = check_adapter(adapter)
    if facts is None:
        return {}
    room = next((rank for rank in RANKS if rank >= facts.rank), None)
    if room is None or facts.rank < 1:
        raise BadCheckpoint(
            f"host.adapter: {adapter} has rank {facts.rank}, and vLLM takes 1 to {RANKS[-1]}; merge it into the"
            " checkpoint with peft (`merge_and_unload`), and serve that"
        )
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": room}
