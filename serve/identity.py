"""What an artifact is bound to, of a configured model."""

import hashlib
import json
from pathlib import Path

from calibration_store.artifact import ModelIdentity
from serve.checkpoint import fingerprint, local_folder
from serve.config import ModelConfig
from serve.host_config import ClassifierHost, OpenAIHost
from serve.language.prompts import prompt_fingerprint


def identity_of(model: ModelConfig) -> ModelIdentity:
    """The identity of a model, whose checkpoint is fetched where it is not here yet."""
    host = model.host
    weights = _named_only(host) if isinstance(host, OpenAIHost) else fingerprint(local_folder(host.checkpoint))
    return ModelIdentity(
        checkpoint=host.model_name,
        fingerprint=weights if isinstance(host, ClassifierHost) else _asked_so(model, weights),
        labels=model.task.labels,
        parents_sha256=model.task.parents_sha256,
    )


def identity_if_here(model: ModelConfig) -> ModelIdentity | None:
    """The same of a model that another host runs; None where this machine does not have its checkpoint."""
    here = isinstance(model.host, OpenAIHost) or Path(model.host.checkpoint).is_dir()
    return identity_of(model) if here else None


def _named_only(host: OpenAIHost) -> str:
    """Of a model elsewhere only the name is known: nobody here can tell when its weights change."""
    return json.dumps([host.base_url, host.model, host.extra_body], sort_keys=True)


def _asked_so(model: ModelConfig, weights: str) -> str:
    """A changed prompt is a changed model, and so is a longer reply, or another temperature of its samples."""
    assert not isinstance(model.host, ClassifierHost)
    sampled = model.samples.model_dump(mode="json", include={"max", "temperature", "top_p"})
    asked = [weights, prompt_fingerprint(model), model.host.max_tokens, sampled]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
