"""Whether a LoRA adapter was trained for the checkpoint on which it is to be put, as far as names and sizes tell."""

from pathlib import Path

from safetensors import SafetensorError, safe_open

from demur.serve.config.adapter_facts import WEIGHTS

BEGIN, SMALL, LARGE = "base_model.model.", ".lora_A.weight", ".lora_B.weight"

MOST_LEFT_OUT = 2
"""Words before the name of a layer that only one of the two files may have, such as `bert`."""

Shapes = dict[str, tuple[int, ...]]


def why_no_fit(adapter: Path, checkpoint: Path) -> str:
    """Return why an adapter cannot be put on a checkpoint in a folder; empty where it can, or where nobody can tell."""
    changes = _shapes_in(adapter / WEIGHTS)
    there: Shapes = {}
    for file in checkpoint.glob("*.safetensors"):
        for name, size in _shapes_in(file).items():
            there |= dict.fromkeys(_shorter(name), size)
    layers = sorted(name.removeprefix(BEGIN).removesuffix(SMALL) for name in changes if name.endswith(SMALL))
    found: dict[str, tuple[int, ...] | None] = {layer: _of(layer, there) for layer in layers}
    if not there or not layers:
        return ""
    if not any(found.values()):
        return f"{adapter} is for another model: it changes {layers[0]}, which {checkpoint} does not have"
    for layer in layers:
        shape = found[layer]
        small, large = changes[f"{BEGIN}{layer}{SMALL}"], changes.get(f"{BEGIN}{layer}{LARGE}", ())
        if (
            shape is not None
            and len(shape) == len(small) == len(large) == 2
            and sorted(shape) != sorted((large[0], small[1]))
        ):
            return (
                f"{adapter} is for another model: it changes {layer} as one of {large[0]} x {small[1]} numbers, and"
                f" {checkpoint} has {shape[0]} x {shape[1]}"
            )
    return ""


def _of(layer: str, there: Shapes) -> tuple[int, ...] | None:
    return next((there[name] for name in _shorter(f"{layer}.weight") if name in there), None)


def _shorter(name: str) -> list[str]:
    """A name, and the same without its first words."""
    words = name.split(".")
    return [".".join(words[at:]) for at in range(min(MOST_LEFT_OUT, len(words) - 1) + 1)]


def _shapes_in(file: Path) -> Shapes:
    """The sizes of all weights in a file; none where it cannot be read, which is told elsewhere."""
    try:
        with safe_open(file, framework="np") as weights:
            return {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118
    except (SafetensorError, OSError):
        return {}
