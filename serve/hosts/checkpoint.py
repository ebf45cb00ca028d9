"""A checkpoint as files: found, fingerprinted, and held against the labels of a task. Loads no weights and no torch."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from demur.serve.config.adapter_facts import read_adapter
from demur.serve.config.checkpoint_facts import (
    TRAINED_FOR,
    BadCheckpoint,
    CheckpointFacts,
    check_same,
    labels_of,
    read_config_json,
    read_facts,
)
from demur.serve.config.checkpoint_labels import is_path, no_folder
from demur.serve.config.hosts.classifier import ClassifierHost
from demur.serve.config.task import TaskConfig

FILES_OF_A_CHECKPOINT = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")


class NoEmbedding(RuntimeError):
    """The input of the classification head could not be found in this architecture. Leave out the scores that
    need the embedding."""


def classifier_facts(host: ClassifierHost, folder: Path) -> CheckpointFacts:
    """Return what is known of a classifier as it is configured. Raises `BadCheckpoint`."""
    return read_facts(folder, read_adapter(host.adapter))


def check_suits(host: ClassifierHost, task: TaskConfig, folder: Path) -> None:
    """Raise `BadCheckpoint` unless the checkpoint in this folder is for the task and the inputs that are configured."""
    facts = classifier_facts(host, folder)
    if facts.kind == "image" and (host.input or host.zero_shot):
        key = "zero_shot" if host.zero_shot else "input"
        raise BadCheckpoint(f"host.{key}: this is for texts, and {host.checkpoint} takes pictures; leave it out")
    if host.zero_shot:
        entailment_of(facts, task, host.checkpoint)
    else:
        _check_labels(host.checkpoint, task, facts)


@dataclass(frozen=True, kw_only=True)
class Entailment:
    """Outputs of a checkpoint that judges whether one text follows from another."""

    follows: int
    contradicts: int | None
    """None where it is not needed, and the checkpoint has several others."""


def entailment_of(facts: CheckpointFacts, task: TaskConfig, checkpoint: str) -> Entailment:
    """Return which output says that one text follows from another, and which that it does not. Raises
    `BadCheckpoint`."""
    names = [name.lower() for name in facts.labels]
    follows = next((at for at, name in enumerate(names) if name.startswith("entail")), None)
    if follows is None:
        raise BadCheckpoint(
            f"host.zero_shot: {checkpoint} has the labels {', '.join(facts.labels[:5])}, and none of them is"
            " `entailment`; name a checkpoint that was trained on natural language inference (NLI)"
        )
    others = [at for at in range(len(names)) if at != follows]
    contradicts = others[0] if len(others) == 1 else next((at for at in others if names[at].startswith("contra")), None)
    if contradicts is None and not task.exclusive:
        raise BadCheckpoint(
            f"host.zero_shot: {checkpoint} has no label `contradiction`, which a multilabel task is judged by; name"
            " another checkpoint"
        )
    return Entailment(follows=follows, contradicts=contradicts)


def _check_labels(checkpoint: str, task: TaskConfig, facts: CheckpointFacts) -> None:
    """Raise `BadCheckpoint` unless the labels of a task are those of the checkpoint, in its order."""
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


def classifier_fingerprint(host: ClassifierHost, folder: Path) -> str:
    """SHA-256 of all that a classifier's output hangs on. What is left at its default does not count, so that artifacts
    stay valid that are older than a setting."""
    files = fingerprint(folder)
    told = {
        "adapter": fingerprint(host.adapter) if host.adapter else None,
        "dtype": None if host.dtype == "auto" else host.dtype,
        "input": host.input if host.input == "text_pair" else None,
        "zero_shot": host.zero_shot.template if host.zero_shot else None,
    }
    if set(told.values()) == {None}:
        return files
    return hashlib.sha256(json.dumps([files, told], sort_keys=True).encode()).hexdigest()


def local_folder(checkpoint: str, revision: str | None = None) -> Path:
    """The folder of a checkpoint; one that is on a hub is fetched into the hub's own cache."""
    if Path(checkpoint).is_dir():
        return Path(checkpoint)
    if is_path(checkpoint):
        raise BadCheckpoint(f"host.checkpoint: {no_folder(checkpoint)}")
    from huggingface_hub import snapshot_download  # comes with transformers, which not every kind of model needs
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(checkpoint, revision=revision, allow_patterns=list(FILES_OF_A_CHECKPOINT)))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise BadCheckpoint(f"host.checkpoint: {not_handed_out(checkpoint, error, revision)}") from None


def not_handed_out(checkpoint: str, error: Exception, revision: str | None = None) -> str:
    """Why a model did not come from its hub."""
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    said = f"there is no folder {checkpoint}, and no hub hands out a model of this name"
    if isinstance(error, GatedRepoError):
        return f"{said} to you: it wants your consent there, and a token (`hf auth login`)"
    if isinstance(error, RevisionNotFoundError):
        return f"the hub has no revision {revision!r} of {checkpoint}; write a branch, a tag or a commit of it"
    if isinstance(error, RepositoryNotFoundError):
        return f"{said}; a private one wants a token (`hf auth login`)"
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        return f"{said} while HF_HUB_OFFLINE is set; fetch it elsewhere, or name a folder"
    return f"{said}: the hub cannot be reached; fetch it with `hf download {checkpoint}`, or name a folder"


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
