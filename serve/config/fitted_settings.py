"""The settings that a fit goes by: kept with the artifact, and compared with what is configured later."""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from pydantic import ValidationError

from demur.serve.config.file import ModelConfig

FITTED = frozenset(
    (
        "scores",
        "confidence",
        "policy",
        "prediction_set",
        "label_confidence",
        "task",
        "escalate_to",
        "prompt",
        "samples",
        "calibration",
    )
)
"""Sections of a model that do nothing until the model is fitted again."""

FILES = frozenset(
    (
        "task.label_file",
        "prompt.template",
        "prompt.mapping_template",
        "prompt.rating_template",
        "prompt.pair_template",
        "prompt.few_shot.examples",
        "prompt.few_shot.embedding",
    )
)
"""Where these files lie does not matter. An artifact is bound to what they say, which is checked when it is loaded."""

LONGEST_VALUE = 60
"""Characters of a value that are told."""

BEFORE_DIFFERENCE = 20
"""Characters of them that stand before the first one that differs."""

MOST_TOLD = 10


def fitted_settings(model: ModelConfig) -> dict[str, Any]:
    """Return the settings of a model that a fit goes by, as JSON. Of the calibration data there is the file's name."""
    settings = model.model_dump(mode="json", include=set(FITTED))
    data = model.calibration.data
    settings["calibration"]["data"] = None if data is None else data.name
    del settings["calibration"]["keep_outputs_mb"]  # it changes no number
    return settings


def differences(name: str, models: Mapping[str, ModelConfig], manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return what is configured otherwise than an artifact of the model `name` was fitted, by key, such as
    `policy.max_risk`, in words. In a cascade the models that are asked later count too.

    An artifact of an earlier demur tells fewer settings; those that it does not tell are not compared.
    """
    found = _differences(models[name], manifest.get("configured")) if name in models else {}
    for step, stored in manifest.get("configured_further", {}).items():
        if step in models:
            later = _differences(models[step], stored)
            found |= {f"{step}: {key}": f"{step}: {words}" for key, words in later.items()}
    return found


def _differences(model: ModelConfig, stored: Any) -> dict[str, str]:
    if not isinstance(stored, Mapping):
        return {}
    now, then = fitted_settings(model), _completed(model, stored)
    found = {}
    for section in stored.keys() & FITTED:
        for key, configured, fitted in _leaves(section, now.get(section), then.get(section)):
            if key not in FILES:
                here, there = _told(configured, fitted)
                found[key] = f"{key} is {here}, and {there} in the artifact"
    return dict(sorted(found.items()))


def in_words(found: Mapping[str, str]) -> str:
    """Return differences as one text; of very many the first ones."""
    told = list(found.values())[:MOST_TOLD]
    more = len(found) - len(told)
    return "; ".join([*told, f"and {more} more"] if more else told)


def _completed(model: ModelConfig, stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Stored settings with the defaults of settings that are newer than they are."""
    values = {**stored, "host": model.host.model_dump(mode="json", by_alias=True)}
    try:
        completed = fitted_settings(ModelConfig.model_validate(values))
    except ValidationError:
        return stored  # they ask for what this demur does not know any more
    return completed


def _leaves(key: str, configured: Any, fitted: Any) -> Iterator[tuple[str, Any, Any]]:
    """Each place at which two trees differ, as deep as both go."""
    if isinstance(configured, Mapping) and isinstance(fitted, Mapping) and not _is_named(configured, fitted):
        for name in sorted(configured.keys() | fitted.keys()):
            yield from _leaves(f"{key}.{name}", configured.get(name), fitted.get(name))
    elif configured != fitted:
        yield key, configured, fitted


def _is_named(configured: Mapping[str, Any], fitted: Mapping[str, Any]) -> bool:
    """Whether these are two kinds of a thing, whose settings have nothing to do with each other."""
    return configured.get("kind") != fitted.get("kind")


def _told(*values: Any) -> Iterator[str]:
    """Values as text; of long ones the part in which they begin to differ."""
    texts = ["not set" if value is None else str(value) for value in values]
    same = sum(1 for _ in takewhile(lambda at: len(set(at)) == 1, zip(*texts, strict=False)))
    for text in texts:
        begin = max(0, min(same - BEFORE_DIFFERENCE, len(text) - LONGEST_VALUE))
        shown = text[begin : begin + LONGEST_VALUE]
        yield f"{'...' * (begin > 0)}{shown}{'...' * (begin + len(shown) < len(text))}"
