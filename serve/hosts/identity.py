"""What an artifact is bound to, of a configured model."""

import hashlib
import json
from pathlib import Path

from demur.calibration_store.artifact import ModelIdentity
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts import ClassifierHost, OpenAIHost
from demur.serve.hosts.checkpoint import fingerprint, local_folder
from demur.serve.hosts.language.anchors import ratings_fingerprint
from demur.serve.hosts.language.pair import judge_fingerprint
from demur.serve.hosts.language.prompts import prompt_fingerprint


def identity_of(model: ModelConfig) -> ModelIdentity:
    """The identity of a model, whose checkpoint is fetched where it is not here yet."""
    weights = weights_fingerprint(model)
    return ModelIdentity(
        checkpoint=model.host.model_name,
        fingerprint=weights if isinstance(model.host, ClassifierHost) else _asked_so(model, weights),
        labels=model.task.labels,
        parents_sha256=model.task.parents_sha256,
    )


def identity_if_here(model: ModelConfig) -> ModelIdentity | None:
    """The same of a model that another host runs; None where this machine does not have its files."""
    here = isinstance(model.host, OpenAIHost) or Path(model.host.checkpoint).is_dir()
    if not isinstance(model.host, ClassifierHost) and model.host.tournament:
        here = here and model.host.tournament.ratings.is_file()
    return identity_of(model) if here else None


def weights_fingerprint(model: ModelConfig) -> str:
    """Of the weights alone, whatever they are asked."""
    host = model.host
    return _named_only(host) if isinstance(host, OpenAIHost) else fingerprint(local_folder(host.checkpoint))


def _named_only(host: OpenAIHost) -> str:
    """Of a model elsewhere only the name is known: nobody here can tell when its weights change."""
    return json.dumps([host.base_url, host.model, host.extra_body], sort_keys=True)


def _asked_so(model: ModelConfig, weights: str) -> str:
    """A changed prompt is a changed model, and so is a longer reply, another temperature of its samples, or other
    inputs that an input is compared with."""
    assert not isinstance(model.host, ClassifierHost)
    sampled = model.samples.model_dump(mode="json", include={"max", "temperature", "top_p"})
    asked = [weights, prompt_fingerprint(model), model.host.max_tokens, sampled]
    if model.host.tournament:
        judge = judge_fingerprint(model, weights)
        asked.append(ratings_fingerprint(model.host.tournament, labels=model.task.labels, judge=judge))
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
