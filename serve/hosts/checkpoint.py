"""A checkpoint as files: found, fingerprinted, and held against the labels of a task. Loads no weights and no torch."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from serve.config.file import ModelConfig
from serve.config.hosts import ClassifierHost, OpenAIHost
from serve.language.anchors import Anchors

FILES_OF_A_CHECKPOINT = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")


class BadCheckpoint(ValueError):
    """The checkpoint cannot be served. The message says which one, and why."""


class NoEmbedding(RuntimeError):
    """The input of the classification head could not be found in this architecture. Leave out the scores that
    need the embedding."""


@dataclass(frozen=True, kw_only=True)
class CheckpointFacts:
    """What a config.json says about the classifier."""

    labels: tuple[str, ...]
    """In the order of the outputs."""

    kind: Literal["image", "text"]
    problem_type: str | None


def read_facts(folder: Path) -> CheckpointFacts:
    """Read config.json. Not through transformers, which brings torch, and whoever checks a file needs no torch."""
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = {int(index): str(name) for index, name in content.get("id2label", {}).items()}
        count = len(names) or int(content.get("num_labels", 2))  # 2 is the default of transformers
        architecture = " ".join(content.get("architectures") or ["no architecture"])
        problem_type = content.get("problem_type")
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise BadCheckpoint(f"{folder} has no config.json that can be read: {first_line(error)}") from None
    kinds: dict[str, Literal["image", "text"]] = {
        "ForImageClassification": "image",
        "ForSequenceClassification": "text",
    }
    kind = next((kind for ending, kind in kinds.items() if ending in architecture), None)
    if kind is None:
        raise BadCheckpoint(f"{folder} holds {architecture}, which is no image or sequence classifier")
    labels = tuple(names.get(index, f"LABEL_{index}") for index in range(count))
    return CheckpointFacts(labels=labels, kind=kind, problem_type=problem_type)


def check_labels(checkpoint: str, kind: str, labels: Sequence[str]) -> None:
    """Raise `BadCheckpoint` unless these can be the labels of the checkpoint, in its order, in a task of this kind."""
    facts = read_facts(local_folder(checkpoint))
    trained_for = "multi_label_classification" if kind == "multilabel" else "single_label_classification"
    if facts.problem_type not in (None, trained_for):
        raise BadCheckpoint(f"{checkpoint} was trained for {facts.problem_type}, which is not a {kind} task")
    own = list(facts.labels)
    if kind == "binary" and len(own) == 1:  # its single output speaks for the second label and against the first
        return
    if len(own) != len(labels):
        raise BadCheckpoint(
            f"task.labels lists {len(labels)} labels, and {checkpoint} has {len(own)} classes: {own[:12]}"
        )
    if sorted(own) == sorted(labels) and list(labels) != own:
        raise BadCheckpoint(f"task.labels has the labels of {checkpoint} in another order; write them as {own}")


def check_model(model: ModelConfig) -> None:
    """Raise `BadCheckpoint` unless the checkpoint of a configured model, if it has one, can do what it is to do, and
    `BadRatings` unless there are anchors, where it needs some."""
    host, task = model.host, model.task
    if isinstance(host, ClassifierHost):
        check_labels(host.checkpoint, task.kind, task.outputs)
    elif not isinstance(host, OpenAIHost):
        check_writes(host.checkpoint)
    if not isinstance(host, ClassifierHost) and host.tournament:
        Anchors.of(host.tournament)


def check_writes(checkpoint: str) -> None:
    """Raise `BadCheckpoint` unless this is a language model that can be told what was said before."""
    folder = local_folder(checkpoint)
    try:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architecture = " ".join(content.get("architectures") or ["no architecture"])
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise BadCheckpoint(f"{folder} has no config.json that can be read: {first_line(error)}") from None
    if "Classification" in architecture:
        raise BadCheckpoint(f"{folder} holds {architecture}, which writes nothing; serve it with `kind: classifier`")
    if not _has_chat_template(folder):
        raise BadCheckpoint(
            f"{folder} has no chat template; add `chat_template.jinja` to it, or serve a model that was trained on "
            "conversations"
        )


def _has_chat_template(folder: Path) -> bool:
    """In a file of its own, as transformers writes it now, or within one that tells of the tokenizer."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        told = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(told.get("chat_template"))


def fingerprint(folder: Path) -> str:
    """SHA-256 over names and contents of the files that make the checkpoint what it is."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in FILES_OF_A_CHECKPOINT for path in folder.glob(pattern)}):
        digest.update(f"{path.name}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def local_folder(checkpoint: str) -> Path:
    """The folder of a checkpoint; one that is on a hub is fetched into the hub's own cache."""
    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    try:
        return Path(snapshot_download(checkpoint, allow_patterns=list(FILES_OF_A_CHECKPOINT)))
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BadCheckpoint(
            f"{checkpoint!r} is neither a folder nor a model that a hub hands out: {first_line(error)}"
        ) from None


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
