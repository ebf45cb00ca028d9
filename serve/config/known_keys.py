"""Which keys a section takes, and where a key belongs that stands in the wrong place: read from a model's schema."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from demur.library.nearest import nearest

Schema = Mapping[str, Any]
Steps = tuple[str | int, ...]

ANY = "*"
"""In a place: whatever name somebody gave."""

MOST_LISTED = 40


class KnownKeys:
    """The keys of a model and of everything in it. `further` are those that no schema knows, by the place of the
    mapping that takes them."""

    def __init__(self, model: type[BaseModel], further: Mapping[Steps, Iterable[str]] | None = None) -> None:
        self._root: Schema = model.model_json_schema()
        self._further = {place: list(keys) for place, keys in (further or {}).items()}

    def advice(self, steps: Sequence[str | int], content: Any) -> str:
        """What to do about a key that is not known, as the end of a sentence. `steps` lead to it in `content`."""
        *around, key = steps
        here = self.at(around, content)
        close, elsewhere = nearest(key, here), self.places_of(str(key), around)
        if close and elsewhere:
            return f"did you mean `{close}`, or does it belong under {elsewhere[0]}?"
        if close:
            return f"did you mean `{close}`?"
        if elsewhere:
            return f"it belongs under {' or '.join(elsewhere[:3])}"
        listed = ", ".join(here[:MOST_LISTED])
        return f"known here are: {listed}" if listed else "no keys are known here"

    def meant(self, steps: Sequence[str | int], content: Any) -> set[Steps]:
        """Where whoever wrote a key that is not known may have wanted to write it."""
        *around, key = steps
        close = nearest(key, self.at(around, content))
        elsewhere = (_filled(place, around) for place in self._elsewhere(str(key), around))
        return {*([(*around, close)] if close else []), *elsewhere}

    def at(self, steps: Sequence[str | int], content: Any) -> list[str]:
        """The keys that are known at a place. Where there are several kinds of a section, those of the kind that
        `content` names there, or of all of them."""
        found = self._schemas(steps, content)
        return list(dict.fromkeys(key for schema in found for key in schema.get("properties", ())))

    def kinds(self, steps: Sequence[str | int], content: Any) -> list[str]:
        """What the `kind` of a section may be."""
        found = [schema.get("properties", {}).get("kind") for schema in self._schemas(steps, content)]  # or it is null
        return list(dict.fromkeys(one for kind in found if kind for one in kind.get("enum", [kind.get("const")])))

    def _schemas(self, steps: Sequence[str | int], content: Any) -> list[Schema]:
        found = self._variants(self._root, content)
        for step in steps:
            inner = content[step] if has(content, step) else None
            found = [each for schema in found for one in _into(schema, step) for each in self._variants(one, inner)]
            content = inner
        return found

    def places_of(self, key: str, around: Sequence[str | int]) -> list[str]:
        """Where a key is known, in words: those places first that share the most with where it stands now."""
        named = [_named(_filled(place, around)[:-1]) for place in self._elsewhere(key, around) if len(place) > 1]
        return list(dict.fromkeys(named))

    def _elsewhere(self, key: str, around: Sequence[str | int]) -> list[Steps]:
        here = [str(step) for step in around]
        found = {place for place in self._places(self._root, ()) if place[-1] == key}
        found |= {(*place, key) for place, keys in self._further.items() if key in keys}
        others = [place for place in found if len(place) - 1 != len(here) or _shared(place, here) < len(here)]
        return sorted(others, key=lambda place: (-_shared(place, here), len(place), [str(step) for step in place]))

    def _places(self, schema: Schema, above: Steps) -> Iterator[Steps]:
        for one in self._variants(schema, None):
            for key, inner in one.get("properties", {}).items():
                yield (*above, key)
                yield from self._places(inner, (*above, key))
            for inner in _unnamed(one):
                yield from self._places(inner, (*above, ANY))

    def _variants(self, schema: Schema, content: Any) -> list[Schema]:
        """What a schema may be: itself, what it refers to, or each of what it chooses from."""
        if "$ref" in schema:
            return self._variants(self._root["$defs"][schema["$ref"].rsplit("/", 1)[1]], content)
        if told := schema.get("discriminator"):
            chosen = content.get(told["propertyName"]) if isinstance(content, Mapping) else None
            if isinstance(chosen, str) and chosen in told["mapping"]:
                return self._variants({"$ref": told["mapping"][chosen]}, content)
        several = None if "properties" in schema else schema.get("oneOf", schema.get("anyOf"))
        return [one for choice in several for one in self._variants(choice, content)] if several else [schema]


@lru_cache(maxsize=32)
def known_keys(model: type[BaseModel]) -> KnownKeys:
    """The keys of a model that callers send: read from its schema once."""
    return KnownKeys(model)


def _into(schema: Schema, step: str | int) -> list[Schema]:
    if isinstance(step, str) and step in schema.get("properties", {}):
        return [schema["properties"][step]]
    return _unnamed(schema)


def _unnamed(schema: Schema) -> list[Schema]:
    """What stands under names that somebody gave, or in a list."""
    inner = [schema.get("additionalProperties"), schema.get("items"), *schema.get("patternProperties", {}).values()]
    return [one for one in inner if isinstance(one, Mapping)]


def has(content: Any, step: str | int) -> bool:
    """Whether there is something under this key, or in this place of a list."""
    if isinstance(content, Mapping):
        return step in content
    return isinstance(content, Sequence) and isinstance(step, int) and 0 <= step < len(content)


def _shared(place: Steps, here: Sequence[str]) -> int:
    """How many of the first steps are the same."""
    for at, (wanted, step) in enumerate(zip(place, here, strict=False)):
        if wanted not in (step, ANY):
            return at
    return min(len(place), len(here))


def _filled(place: Steps, around: Sequence[str | int]) -> Steps:
    """A place with the names that were given around here, as far as they are the same."""
    shared = _shared(place, [str(step) for step in around])
    return (*around[:shared], *place[shared:])


def _named(place: Steps) -> str:
    return f"`{'.'.join('NAME' if step == ANY else str(step) for step in place)}`"
