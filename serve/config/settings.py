"""Settings as they are written in the configuration, turned into parts, and what is wrong with them put into words."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

MOST_TOLD = 20
"""Mistakes that are put into words."""

LONGEST_STEP = 200
"""Characters of a key that are told; keys come from outside as well."""


class Section(BaseModel):
    """A part of the configuration: frozen, and without keys that are not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def complaint(error: ValidationError) -> str:
    """What pydantic found, as one sentence for each mistake; of very many the first ones."""
    mistakes = error.errors(include_url=False, include_input=False)  # what was sent may be large, and is never told
    told = [
        ": ".join(filter(None, (".".join(str(step)[:LONGEST_STEP] for step in mistake["loc"]), _in_words(mistake))))
        for mistake in mistakes[:MOST_TOLD]
    ]
    more = len(mistakes) - len(told)
    return "; ".join([*told, f"and {more:,} more"] if more > 0 else told)


def _in_words(mistake: Mapping[str, Any]) -> str:
    if mistake["type"] == "extra_forbidden":
        return "this key is not known; check its spelling and its place"
    text = str(mistake["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def named(place: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of an entry that is a name, or one name with its settings."""
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and len(entry) == 1:
        name, settings = next(iter(entry.items()))
        if isinstance(settings, dict):
            return name, settings
    raise ValueError(f"{place}: write a name, or one name with its settings, like `mahalanobis: {{shrinkage: 0.1}}`")


def part(
    place: str,
    table: Mapping[str, Callable[..., Any]],
    name: Any,
    settings: dict[str, Any],
    *,
    also: Iterable[str] = (),
) -> Any:
    """Build what a table offers under this name, from settings whose names and types are checked."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{place}: {name!r} is not one of: {', '.join((*table, *also))}")
    kind = table[name]
    offered = [field.name for field in fields(kind)] if isinstance(kind, type) else []
    for setting in settings:
        if setting not in offered:
            raise ValueError(f"{place}: {name} has no setting {setting!r}; it takes: {', '.join(offered) or 'none'}")
    if not isinstance(kind, type):
        return kind()
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        raise ValueError(f"{place}: {name}: {complaint(error)}") from None
