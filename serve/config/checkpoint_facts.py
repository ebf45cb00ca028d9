"""What the config.json of a checkpoint says about a classifier. It is read as plain JSON, without transformers."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from demur.library.nearest import one_of

NAMELESS = re.compile(r"LABEL_\d+")
"""What transformers calls a class that nobody has named."""

TRAINED_FOR = {
    "multi_label_classification": "labels that do not exclude each other, which is a `multilabel` task",
    "single_label_classification": "labels of which one is right, which is a `multiclass` or `binary` task",
    "regression": "predicting numbers, which is no classification",
}


class BadCheckpoint(ValueError):
    """The checkpoint cannot be served. The message says which one, and why."""


@dataclass(frozen=True, kw_only=True)
class CheckpointFacts:
    """What is known of a classifier before its weights are loaded."""

    labels: tuple[str, ...]
    """In the order of the outputs."""

    kind: Literal["image", "text"]
    problem_type: str | None

    head_is_new: bool = False
    """Whether the classification head comes with an adapter, because the checkpoint has none."""


@dataclass(frozen=True, kw_only=True)
class AdapterFacts:
    """What is known of a LoRA adapter before its weights are loaded."""

    for_texts: bool
    """Whether it makes a classifier of texts."""

    outputs: int | None
    """Of its own classification head; None where it has none, so that the checkpoint's head stays."""


def read_facts(folder: Path, adapter: AdapterFacts | None = None) -> CheckpointFacts:
    """Read config.json. Not through transformers, which brings torch, and whoever checks a file needs no torch. A
    checkpoint without a classification head may get one from an adapter."""
    content = read_config_json(folder)
    try:
        names = {int(index): str(name) for index, name in content.get("id2label", {}).items()}
        count = len(names) or int(content.get("num_labels", 2))  # 2 is the default of transformers
        architecture = " ".join(content.get("architectures") or ["no architecture"])
        problem_type = content.get("problem_type")
    except (ValueError, AttributeError, TypeError):
        raise BadCheckpoint(f"{folder}/config.json is not that of a transformers model") from None
    kinds: dict[str, Literal["image", "text"]] = {
        "ForImageClassification": "image",
        "ForSequenceClassification": "text",
    }
    kind = next((kind for ending, kind in kinds.items() if ending in architecture), None)
    if kind is None and adapter is not None and adapter.outputs is not None:
        labels = tuple(f"LABEL_{index}" for index in range(adapter.outputs))
        return CheckpointFacts(
            labels=labels, kind="text" if adapter.for_texts else "image", problem_type=None, head_is_new=True
        )
    if kind is None:
        raise BadCheckpoint(f"{folder} holds {architecture}, which is no image or sequence classifier")
    labels = tuple(names.get(index, f"LABEL_{index}") for index in range(count))
    return CheckpointFacts(labels=labels, kind=kind, problem_type=problem_type)


def read_config_json(folder: Path) -> dict[str, Any]:
    """What is in config.json. Raises `BadCheckpoint`."""
    path = folder / "config.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadCheckpoint(
            f"{folder} has no config.json, so it is no checkpoint of the transformers library"
        ) from None
    except (OSError, ValueError, RecursionError):
        raise BadCheckpoint(f"{folder} has no config.json that can be read; copy the checkpoint again") from None
    if not isinstance(content, dict):
        raise BadCheckpoint(f"{path} is not that of a transformers model")
    if content.get("auto_map"):
        raise BadCheckpoint(
            f"{folder} brings code of its own (auto_map in config.json), which demur never runs; serve it through a"
            " class of your own (host.kind: python), or take a model that the transformers library knows"
        )
    return content


def labels_of(facts: CheckpointFacts, checkpoint: str, rename: Mapping[str, str]) -> list[str]:
    """The checkpoint's labels, some of them renamed. Raises `BadCheckpoint` where a name that is to be changed is none
    of them."""
    if unknown := [name for name in rename if name not in facts.labels]:
        raise BadCheckpoint(
            f"task.rename.{unknown[0]}: {checkpoint} has no such class: {one_of(unknown[0], facts.labels)}"
        )
    return [rename.get(name, name) for name in facts.labels]


def check_named(labels: list[str], checkpoint: str) -> None:
    """Raise `BadCheckpoint` unless a reviewer can make something of every label that a checkpoint brings."""
    if len(labels) == 1:
        raise BadCheckpoint(
            f"task.labels: {checkpoint} has a single output; list two labels, first what speaks against it"
        )
    if nameless := [name for name in labels if NAMELESS.fullmatch(name)]:
        as_listed = json.dumps([f"name of {name}" if name in nameless else name for name in labels], ensure_ascii=False)
        raise BadCheckpoint(
            f"task.labels: {checkpoint} has no names for {len(nameless)} of its {len(labels)} classes, and"
            f" {nameless[0]} tells a reviewer nothing; write what they mean, in this order: labels: {as_listed}"
        )
    if twice := next((name for at, name in enumerate(labels) if name in labels[:at]), None):
        raise BadCheckpoint(f"task.labels: {checkpoint} has two classes called {twice!r}; list the labels here")


def check_same(labels: list[str], own: list[str], checkpoint: str) -> None:
    """Raise `BadCheckpoint` unless what is configured are the labels of the checkpoint, in its order."""
    line = f"labels: {json.dumps(own, ensure_ascii=False)}"
    if sorted(labels) == sorted(own) and labels != own:
        raise BadCheckpoint(f"task.labels has the labels of {checkpoint} in another order; write them as {line}")
    if labels == own or (len(labels) == len(own) and not _tells_classes_apart(own)):
        return
    missing, unknown = [name for name in own if name not in labels], [name for name in labels if name not in own]
    said = f"task.labels lists {len(labels)} labels, and {checkpoint} has {len(own)} classes"
    if len(labels) == len(own):
        said = f"task.labels has other names than {checkpoint}"
    if missing:
        said += f"; it lacks: {', '.join(missing)}"
    if unknown:
        said += f"; these are none of its classes: {', '.join(unknown)}"
    pair = f"{{{json.dumps(missing[0])}: {json.dumps(unknown[0])}}}" if missing and unknown else "{theirs: yours}"
    raise BadCheckpoint(
        f"{said}. Leave `labels` out, and they are read from the checkpoint; or write them as {line}; or, where a class"
        f" goes by another name here, leave them out and write rename: {pair}"
    )


def _tells_classes_apart(names: list[str]) -> bool:
    return len(set(names)) == len(names) and not all(NAMELESS.fullmatch(name) for name in names)
