"""What a configured endpoint gives, found out with a few short requests, and what that means for the configuration."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.endpoint import EndpointConfig, OpenAIHost
from demur.serve.contract.engine import Asking, CannotGive, EngineFailed, LabelNotListed, LabelsUntold
from demur.serve.hosts.endpoint_http import TimeLimit
from demur.serve.hosts.language.openai_endpoint import MOST_ALTERNATIVES, OpenAIEndpoint
from demur.serve.hosts.language.refused_parameters import written
from demur.uncertainty.generation import Generation
from demur.uncertainty.output import Need

QUESTION = [{"role": "user", "content": "Reply with the word yes."}]

SHORT = 16
"""Tokens of a reply to a probe, at most."""

ALTERNATIVES = 5

NOT_LISTED = (
    "asked to reply with the word yes, the endpoint listed neither yes nor no; whether it lists the labels of the task"
    " will be seen in the fit, and an input is held where a label that is not listed could be the most probable one"
)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """What one endpoint said to a few requests."""

    address: str
    problem: str | None
    """Why it could not be asked, or cannot be used as it is configured; None where it can."""

    refused: tuple[str, ...] = ()
    """Parameters that it refuses, each with its words and with what is done about it."""

    left_out: frozenset[str] = frozenset()
    """Of these, those that change what is written, such as `temperature=0`."""

    gives_logprobs: bool = True
    unknown_scores: tuple[str, ...] = ()
    """Configured scores that cannot be computed from what it gives."""

    labels_untold: str = ""
    """Why labels get no probabilities by `prompt.probabilities: first_token`; empty where they do."""

    sentences: tuple[str, ...] = ()
    """What is refused and unknown in words, with what to do."""


def probe(model: ModelConfig, *, seconds: float = 10.0, only: Collection[str] | None = None) -> list[Probe]:
    """Ask the endpoints of a model up to four short questions each, each within so many seconds. It costs some tokens.
    Nothing for a model that no endpoint serves.

    Where `only` is given, endpoints at other addresses are not asked."""
    if not isinstance(model.host, OpenAIHost):
        return []
    host = model.host.model_copy(update={"retries": 0})
    chosen = [endpoint for endpoint in host.all_endpoints if only is None or endpoint.base_url in only]
    return asyncio.run(_all(model, host, chosen, seconds))


def remarks(model: ModelConfig) -> list[str]:
    """What can be said of a model's endpoint without asking it."""
    by, labels = model.prompt.probabilities, len(model.task.labels)
    if not model.host.is_endpoint or by != "first_token" or labels <= MOST_ALTERNATIVES:
        return []
    return [
        f"prompt.probabilities: first_token: the task has {labels} labels, and an endpoint lists at most"
        f" {MOST_ALTERNATIVES} tokens; the others get the most that the list allows, and an input is held where one of"
        " them could be the most probable"
    ]


async def _all(
    model: ModelConfig, host: OpenAIHost, endpoints: Iterable[EndpointConfig], seconds: float
) -> list[Probe]:
    return list(await asyncio.gather(*(_one(model, host, endpoint, seconds) for endpoint in endpoints)))


async def _one(model: ModelConfig, host: OpenAIHost, told: EndpointConfig, seconds: float) -> Probe:
    try:
        endpoint = OpenAIEndpoint(host, told)
    except CannotGive as error:
        return Probe(address=told.base_url, problem=str(error), sentences=(str(error),))
    try:
        return await _asked(model, endpoint, seconds)
    finally:
        await endpoint.close()


async def _asked(model: ModelConfig, endpoint: OpenAIEndpoint, seconds: float) -> Probe:
    needs, sampled = model.recipe.needs, "samples" in model.recipe.needs or model.prompt.probabilities == "samples"
    wants = bool(needs & {"logprobs", "top_logprobs"})
    only = ("yes", "no") if model.prompt.constrained else None
    replies: list[Generation] = []
    labels_untold, not_listed, left_out = "", False, frozenset[str]()
    try:
        first = Asking(
            max_tokens=SHORT, logprobs=wants, top_logprobs=ALTERNATIVES if "top_logprobs" in needs else 0, only=only
        )
        replies += await endpoint.generate(QUESTION, first, limit=TimeLimit.of(seconds))
        if sampled:
            temperature, top_p = model.samples.temperature, model.samples.top_p
            drawn = Asking(max_tokens=SHORT, n=2, temperature=temperature, top_p=top_p, seed=0, only=only)
            replies += await endpoint.generate(QUESTION, drawn, limit=TimeLimit.of(seconds))
        if model.prompt.probabilities == "first_token":
            try:
                limit = TimeLimit.of(seconds)
                labels = await endpoint.label_logprobs(QUESTION, ("yes", "no"), without=frozenset(), limit=limit)
                left_out |= labels.left_out
            except LabelNotListed:
                not_listed = True  # of labels that are not those of the task
            except LabelsUntold as error:
                labels_untold = str(error)
    except (EngineFailed, CannotGive) as error:
        return Probe(address=endpoint.address, problem=str(error), sentences=(str(error),))
    left_out = left_out.union(*(reply.left_out for reply in replies))
    without = wants and replies[0].logprobs is None
    unknown = tuple(_on_logprobs(model)) if without else ()
    return Probe(
        address=endpoint.address,
        problem=None,
        refused=tuple(endpoint.refused.in_words),
        left_out=left_out,
        gives_logprobs=not without,
        unknown_scores=unknown,
        labels_untold=labels_untold,
        sentences=(
            *endpoint.refused.in_words,
            *([NOT_LISTED] if not_listed else []),
            *_of_temperature(model, left_out),
            *([f"{replies[0].no_logprobs}; until then these are unknown: {', '.join(unknown)}"] if unknown else []),
        ),
    )


def _on_logprobs(model: ModelConfig) -> Iterable[str]:
    """Scores that need log-probabilities, and mixes of them."""
    needed: frozenset[Need] = frozenset({"logprobs", "top_logprobs"})
    found = {name for name, score in model.recipe.scores.items() if score.needs & needed}
    yield from sorted(found)
    for name, mix in model.recipe.combinations.items():
        if found & set(mix.sources):
            yield name


def _of_temperature(model: ModelConfig, left_out: frozenset[str]) -> Iterable[str]:
    if written("temperature", 0) in left_out:
        yield (
            "the reply that is predicted from is then not the one at temperature 0, but drawn as the endpoint sees fit:"
            " the same input may get another one, and an artifact is fitted for that"
        )
    if written("temperature", model.samples.temperature) in left_out:
        yield "sampled replies are then drawn at the endpoint's own temperature, and not at samples.temperature"
