"""A checkpoint as files: found, fingerprinted, and held against the labels of a task. Loads no weights and no torch."""

import hashlib
import json
import os
from pathlib import Path

from demur.serve.config.checkpoint_facts import (
    TRAINED_FOR,
    BadCheckpoint,
    check_same,
    labels_of,
    read_config_json,
    read_facts,
)
from demur.serve.config.checkpoint_labels import is_path, no_folder
from demur.serve.config.task import TaskConfig

FILES_OF_A_CHECKPOINT = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")


class NoEmbedding(RuntimeError):
    """The input of the classification head could not be found in this architecture. Leave out the scores that
    need the embedding."""


def check_labels(checkpoint: str, task: TaskConfig, folder: Path) -> None:
    """Raise `BadCheckpoint` unless the labels of a task are those of the checkpoint in this folder, in its order."""
    facts = read_facts(folder)
    trained_for = "multi_label_classification" if task.kind == "multilabel" else "single_label_classification"
    if facts.problem_type not in (None, trained_for):
        what = TRAINED_FOR.get(str(facts.problem_type), facts.problem_type)
        raise BadCheckpoint(f"task.kind: {checkpoint} was trained for {what}, and this is a {task.kind} task")
    own = labels_of(facts, checkpoint, task.rename)
    if task.kind == "binary" and len(own) == 1:  # its single output speaks for the second label and against the first
        return
    check_same(list(task.outputs), own, checkpoint)


def check_writes(checkpoint: str) -> None:
    """Raise `BadCheckpoint` unless this is a language model that can be told what was said before."""
    folder = local_folder(checkpoint)
    architectures = read_config_json(folder).get("architectures")
    architecture = " ".join(map(str, architectures)) if isinstance(architectures, list) else "no architecture"
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
    if is_path(checkpoint):
        raise BadCheckpoint(f"host.checkpoint: {no_folder(checkpoint)}")
    from huggingface_hub import snapshot_download  # comes with transformers, which not every kind of model needs
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(checkpoint, allow_patterns=list(FILES_OF_A_CHECKPOINT)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BadCheckpoint(f"host.checkpoint: {not_handed_out(checkpoint, error)}") from None


def not_handed_out(checkpoint: str, error: Exception) -> str:
    """Why a model did not come from its hub."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    said = f"there is no folder {checkpoint}, and no hub hands out a model of this name"
    if isinstance(error, GatedRepoError):
        return f"{said} to you: it wants your consent there, and a token (`hf auth login`)"
    if isinstance(error, RepositoryNotFoundError):
        return f"{said}; a private one wants a token (`hf auth login`)"
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return f"{said} while HF_HUB_OFFLINE is set; fetch it elsewhere, or name a folder"
    return f"{said}: the hub cannot be reached; fetch it with `hf download {checkpoint}`, or name a folder"


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
