"""What an artifact is bound to, of a configured model."""

from pathlib import Path

from calibration_store.artifact import ModelIdentity
from serve.checkpoint import fingerprint
from serve.config import ModelConfig


def identity_of(model: ModelConfig, folder: Path) -> ModelIdentity:
    """The identity of a model whose checkpoint lies in this folder."""
    return ModelIdentity(
        checkpoint=model.host.checkpoint,
        fingerprint=fingerprint(folder),
        labels=model.task.labels,
        parents_sha256=model.task.parents_sha256,
    )


def identity_if_here(model: ModelConfig) -> ModelIdentity | None:
    """The same of a model that another host runs; None where this machine does not have its checkpoint."""
    folder = Path(model.host.checkpoint)
    return identity_of(model, folder) if folder.is_dir() else None
