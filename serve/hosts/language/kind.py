"""`host: {kind: transformers | vllm | openai}`: language models, in the replica itself or behind an endpoint."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.language import LanguageHost, TransformersHost, VllmHost, WriterHost
from demur.serve.contract.model import Model
from demur.serve.hosts.checkpoint import check_writes, fingerprint, local_folder
from demur.serve.hosts.kind import ModelKind
from demur.serve.hosts.language.adapter import check_adapter, lora_arguments
from demur.serve.hosts.language.anchors import Anchors, ratings_fingerprint
from demur.serve.hosts.language.engines import started
from demur.serve.hosts.language.few_shot import Reviewed
from demur.serve.hosts.language.model import LanguageModel
from demur.serve.hosts.language.overheard import OverheardEngine
from demur.serve.hosts.language.pair import judge_fingerprint
from demur.serve.hosts.language.prompts import prompt_fingerprint
from demur.serve.hosts.language.vllm_reasoning import check_parser


def weights_fingerprint(model: ModelConfig) -> str:
    """Return the fingerprint of the weights, and of what the chat template is told beside the conversation. Of a model
    elsewhere only the name is known: nobody here can tell when its weights change."""
    host = model.host
    if isinstance(host, OpenAIHost):
        variables = [host.chat_template_kwargs] if host.chat_template_kwargs else []
        return json.dumps([host.base_url, host.model, host.extra_body, *variables], sort_keys=True)
    assert isinstance(host, WriterHost)
    files = fingerprint(local_folder(host.checkpoint))
    parser = [host.reasoning_parser] if isinstance(host, VllmHost) and host.reasoning_parser else []
    if host.adapter is None and not host.chat_template_kwargs and not parser:
        return files  # artifacts stay valid that are older than these settings
    adapter = fingerprint(host.adapter) if host.adapter else None
    told = [files, adapter, host.chat_template_kwargs, *parser]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def check_ratings(model: ModelConfig) -> None:
    """Raise `BadRatings` unless there are anchors, where a model compares its inputs with some."""
    if model.host.rated_by:
        Anchors.of(model.host.rated_by)


async def _load(model: ModelConfig, reviewed: Reviewed | None) -> Model:
    host = model.host
    assert isinstance(host, TransformersHost | VllmHost | OpenAIHost)
    return LanguageModel(model, OverheardEngine(await started(host)), reviewed=reviewed)


def check_writer(host: WriterHost) -> None:
    """Raise `BadCheckpoint` where what is set beside the checkpoint cannot be used."""
    check_adapter(host.adapter)
    if isinstance(host, VllmHost):
        lora_arguments(host.adapter)
        check_parser(host.reasoning_parser)


def _check(model: ModelConfig) -> None:
    host = model.host
    assert isinstance(host, WriterHost)
    check_writes(str(local_folder(host.checkpoint)))
    check_writer(host)
    check_ratings(model)


def _fingerprint(model: ModelConfig) -> str:
    """A changed prompt is a changed model, and so is a longer reply, another temperature of its samples, or other
    inputs that an input is compared with."""
    assert isinstance(model.host, LanguageHost)
    weights = weights_fingerprint(model)
    sampled = model.samples.model_dump(mode="json", include={"max", "temperature", "top_p"})
    asked = [weights, prompt_fingerprint(model), model.host.max_tokens, sampled]
    if model.host.rated_by:
        judge = judge_fingerprint(model, weights)
        asked.append(ratings_fingerprint(model.host.rated_by, labels=model.task.labels, judge=judge))
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _has_ratings(model: ModelConfig) -> bool:
    return model.host.rated_by is None or model.host.rated_by.ratings.is_file()


def _is_here(model: ModelConfig) -> bool:
    host = model.host
    assert isinstance(host, WriterHost)
    is_whole = Path(host.checkpoint).is_dir() and (host.adapter is None or host.adapter.is_dir())
    return is_whole and _has_ratings(model)


LANGUAGE = ModelKind(load=_load, check=_check, fingerprint=_fingerprint, is_here=_is_here)
ENDPOINT = replace(LANGUAGE, check=check_ratings, is_here=_has_ratings)
