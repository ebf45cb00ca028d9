"""Labels that nobody needs to write: those of a classifier's checkpoint, read when the configuration is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demur.serve.config.adapter_facts import read_adapter
from demur.serve.config.checkpoint_facts import BadCheckpoint, check_named, labels_of, read_facts

OF_CHECKPOINTS = ("binary", "multiclass", "multilabel")
"""Kinds of task whose labels a checkpoint may name."""


def with_labels(model: Any) -> Any:
    """Return the settings of a model, and with them the labels of its checkpoint where it is a classifier that lists
    none. Raises `ValueError`."""
    if not isinstance(model, Mapping):
        return model
    task, host = model.get("task"), model.get("host")
    if not isinstance(task, Mapping) or not isinstance(host, Mapping) or host.get("kind") != "classifier":
        return model
    checkpoint, rename = host.get("checkpoint"), task.get("rename") or {}
    listed = task.get("labels", task.get("outputs"))
    if listed is not None or task.get("kind") not in OF_CHECKPOINTS or not isinstance(checkpoint, str):
        return model
    if not _are_names(rename):
        return model
    if host.get("zero_shot") is not None:
        raise ValueError("task.labels: with `zero_shot` nobody else names them; list them")
    revision, adapter = host.get("revision"), host.get("adapter")
    if not isinstance(revision, str | None) or not isinstance(adapter, str | Path | None):
        return model  # which is told where they stand
    folder = folder_here(checkpoint, revision)
    if folder is None:
        raise ValueError(f"host.checkpoint: {_not_here(checkpoint)}")
    try:
        labels = labels_of(read_facts(folder, read_adapter(Path(adapter) if adapter else None)), checkpoint, rename)
        check_named(labels, checkpoint)
    except BadCheckpoint as error:
        raise ValueError(str(error)) from None
    return {**model, "task": {**task, "labels": labels}}


def folder_here(checkpoint: str, revision: str | None = None) -> Path | None:
    """Where the config.json of a checkpoint lies on this machine: in the folder of this name, or in what a hub has
    handed out before. None where it does not."""
    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    found = _cached(checkpoint, revision)
    return Path(found).parent if found else None


def is_path(checkpoint: str) -> bool:
    """Whether this cannot be the name of a model on a hub."""
    return Path(checkpoint).exists() or _cached(checkpoint) is None


def no_folder(checkpoint: str) -> str:
    """Why there is nothing under a name that cannot be one on a hub."""
    if Path(checkpoint).is_file():
        return f"{checkpoint} is a file; a checkpoint is the folder that `save_pretrained` of transformers has written"
    if checkpoint.startswith("~"):
        return f"there is no folder {checkpoint}; write the whole path, since ~ stands for nothing here"
    return f"there is no folder {checkpoint}"


def _not_here(checkpoint: str) -> str:
    if is_path(checkpoint):
        return no_folder(checkpoint)
    return (
        f"there is no folder {checkpoint}, and no model of this name has been fetched from a hub yet, so its labels"
        f" cannot be read; fetch it with `hf download {checkpoint}`, or list the labels under `task`"
    )


def _cached(name: str, revision: str | None = None) -> str | None:
    """The path of the config.json of a model that was fetched from a hub before; empty where it was not, and None where
    no hub has models of such a name."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError:
        return None
    return found if isinstance(found, str) else ""


def _are_names(rename: Any) -> bool:
    return isinstance(rename, Mapping) and all(isinstance(one, str) for pair in rename.items() for one in pair)
