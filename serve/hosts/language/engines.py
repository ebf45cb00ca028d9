"""The engine that a host is configured with."""

from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.kinds import AnyLanguageHost
from demur.serve.config.hosts.language import TransformersHost
from demur.serve.contract.engine import Engine
from demur.serve.hosts.garbage import without_collection


async def started(host: AnyLanguageHost) -> Engine:
    """Start it, in the running loop. What an engine needs to be installed is imported here and nowhere else."""
    if isinstance(host, TransformersHost):
        with without_collection():
            from demur.serve.hosts.language.transformers_engine import TransformersEngine

        return await TransformersEngine.started(host)
    if isinstance(host, OpenAIHost):
        from demur.serve.hosts.language.openai_engine import OpenAIEngine

        return await OpenAIEngine.started(host)
    with without_collection():
        from demur.serve.hosts.language.vllm_engine import VllmEngine

    return await VllmEngine.started(host)
