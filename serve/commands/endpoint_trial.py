"""Whether the endpoints of a language model answer, and what they refuse."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from demur.library.nearest import one_of
from demur.serve.commands.http_answer import SECONDS, NoAnswer, answer_of, as_json
from demur.serve.commands.trials import Finding, NotTried, Remark, Steps, Wrong
from demur.serve.config.access import is_loopback
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.endpoint import EndpointConfig, OpenAIHost
from demur.serve.hosts.language.probe import Probe, probe, remarks

REDIRECTED = 300
REFUSED = (401, 403)
NOT_OFFERED = (400, 404, 405, 501)
"""How endpoints answer that do not list their models."""


def try_endpoints(name: str, model: ModelConfig, *, offline: bool) -> Iterator[Finding]:
    """Whether each endpoint of a model is there, takes the key, knows the model and gives what the scores need. The
    model is asked up to four short questions at each of them."""
    host, place = model.host, ("models", name)
    assert isinstance(host, OpenAIHost)
    yield from (Remark(f"{name}: {sentence}") for sentence in remarks(model))
    places: dict[str, Steps] = {}
    for at, endpoint in enumerate(host.all_endpoints):
        where = (*place, "host", *(("endpoints", at - 1) if at else ()))
        found = list(_answer(name, host, endpoint, where, offline=offline))
        yield from found
        if not offline and not any(isinstance(one, Wrong) for one in found):
            places[endpoint.base_url] = where
    if places:
        for probed in probe(model, seconds=SECONDS, only=frozenset(places)):
            yield from _of_probe(name, model, probed, places[probed.address])


def _answer(name: str, host: OpenAIHost, endpoint: EndpointConfig, place: Steps, *, offline: bool) -> Iterator[Finding]:
    url, wanted = endpoint.base_url, endpoint.model or host.model
    key_name = endpoint.api_key_env or host.api_key_env
    key = os.environ.get(key_name, "").strip()
    if not key and not is_loopback(urlsplit(url).hostname or ""):
        why = f"the environment variable {key_name} is not set, and it should hold the key for {url}"
        yield Wrong((*place, "api_key_env"), why)
        return
    if offline:
        yield NotTried(f"the endpoint of {name}, {url} (--offline)")
        return
    try:
        status, body = answer_of(f"{url}/models", {"Authorization": f"Bearer {key}"} if key else {})
    except NoAnswer as error:
        yield Wrong((*place, "base_url"), f"{url} {error}")
        return
    if status in REFUSED:
        whose = f"the key in {key_name}" if key else f"requests without a key; set {key_name}"
        yield Wrong((*place, "api_key_env"), f"{url} refuses {whose} ({status})")
    elif status in NOT_OFFERED:
        return  # whether it knows the model will be seen when that is asked
    elif status >= REDIRECTED:
        yield Wrong((*place, "base_url"), f"{url}/models answers {status}; correct the address, or try again later")
    elif (known := _listed(body)) is None:
        yield Wrong((*place, "base_url"), f"{url}/models lists no models; the address of most endpoints ends in /v1")
    elif not any(_same_model(wanted, one) for one in known):
        yield Wrong((*place, "model"), f"{url} lists no such model: {one_of(wanted, known)}")


def _of_probe(name: str, model: ModelConfig, probed: Probe, place: Steps) -> Iterator[Finding]:
    """What a few requests have shown: wrong is what would keep every prediction from being decided."""
    if probed.problem:
        yield Wrong((*place, "base_url"), probed.problem)
        return
    yield from (Remark(f"{name}: {sentence}") for sentence in probed.sentences)
    score = model.recipe.confidence_score
    if score in probed.unknown_scores:
        yield Wrong(
            ("models", name, "confidence"),
            f"{score} cannot be computed, since {probed.address} gives no log-probabilities, and every prediction would"
            " be held; take a score that does without, such as semantic_entropy, sample_disagreement or rating",
        )
    if probed.labels_untold:
        yield Wrong(("models", name, "prompt", "probabilities"), probed.labels_untold)


def _listed(body: bytes) -> list[str] | None:
    """The names of the models that an endpoint lists; None where it lists none."""
    told = as_json(body)
    models = told.get("data") if isinstance(told, dict) else None
    if not isinstance(models, list):
        return None
    return [one["id"] for one in models if isinstance(one, dict) and isinstance(one.get("id"), str)]


def _same_model(wanted: str, known: str) -> bool:
    """Whether an endpoint means this model: some list it under a folder, such as `models/`, and take it without."""
    return wanted == known or known.endswith(f"/{wanted}") or wanted.endswith(f"/{known}")
