"""The engine that a host is configured with."""

from demur.serve.config.hosts import AnyLanguageHost, OpenAIHost, TransformersHost
from demur.serve.garbage import without_collection
from demur.serve.language.engine import Engine


async def started(host: AnyLanguageHost) -> Engine:
    """Start it, in the running loop. What an engine needs to be installed is imported here and nowhere else."""
    if isinstance(host, TransformersHost):
        with without_collection():
            from demur.serve.language.transformers_engine import TransformersEngine

        return await TransformersEngine.started(host)
    if isinstance(host, OpenAIHost):
        from demur.serve.language.openai_engine import OpenAIEngine

        return await OpenAIEngine.started(host)
    with without_collection():
        from demur.serve.language.vllm_engine import VllmEngine

    return await VllmEngine.started(host)
