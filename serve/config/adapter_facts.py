"""What the folder of a LoRA adapter says about itself. It is read without peft, which brings torch."""

import json
import re
from pathlib import Path

from safetensors import SafetensorError, safe_open

from demur.serve.config.checkpoint_facts import AdapterFacts, BadCheckpoint

DESCRIPTION = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"

HEAD = re.compile(r"(^|\.)(score|classifier|out_proj|fc|head)\.weight$")
"""The last layer of a classifier, as architectures call it."""


def read_adapter(folder: Path | None) -> AdapterFacts | None:
    """Return what an adapter says about itself, where there is one. Raises `BadCheckpoint`."""
    if folder is None:
        return None
    if not folder.is_dir():
        raise BadCheckpoint(f"host.adapter: there is no folder {folder}")
    try:
        told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise BadCheckpoint(
            f"host.adapter: {folder} has no {DESCRIPTION} that can be read; name the folder that `save_pretrained` of"
            " peft has written"
        ) from None
    kind = told.get("peft_type") if isinstance(told, dict) else None
    if kind != "LORA":
        raise BadCheckpoint(f"host.adapter: {folder} holds an adapter of the kind {kind}; only LORA is served")
    if not (folder / WEIGHTS).is_file():
        raise BadCheckpoint(
            f"host.adapter: {folder} has no {WEIGHTS}; save it as safetensors; other files may hold code"
        )
    return AdapterFacts(for_texts=told.get("task_type") == "SEQ_CLS", outputs=_outputs(folder / WEIGHTS))


def _outputs(path: Path) -> int | None:
    """Rows of the classification head, where the adapter has one of its own."""
    try:
        with safe_open(path, framework="np") as weights:
            heads = [name for name in weights.keys() if HEAD.search(name) and "lora_" not in name]  # noqa: SIM118
            shapes = [weights.get_slice(name).get_shape() for name in sorted(heads)]
    except (SafetensorError, OSError) as error:
        raise BadCheckpoint(
            f"host.adapter: {path} cannot be read ({str(error).splitlines()[0]}); copy it again"
        ) from None
    return next((int(shape[0]) for shape in reversed(shapes) if len(shape) == 2), None)


def _why(error: Exception) -> str:
    return str(error).splitlines()[0]
