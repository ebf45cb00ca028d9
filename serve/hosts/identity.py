"""What an artifact is bound to, of a configured model."""

from demur.calibration_store.artifact import ModelIdentity
from demur.serve.config.file import ModelConfig
from demur.serve.hosts.kinds import kind_of


def identity_of(model: ModelConfig) -> ModelIdentity:
    """Return the identity of a model. A checkpoint that is not here yet is fetched."""
    return ModelIdentity(
        checkpoint=model.host.model_name,
        fingerprint=kind_of(model).fingerprint(model),
        labels=() if model.task.sparse else model.task.labels,
        labels_sha256=model.task.table.sha256,
        parents_sha256=model.task.parents_sha256,
    )


def identity_if_here(model: ModelConfig) -> ModelIdentity | None:
    """Return the identity of a model that another host runs; None if this machine does not have its files."""
    return identity_of(model) if kind_of(model).is_here(model) else None
