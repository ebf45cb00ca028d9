"""What pydantic found in something that somebody wrote or sent: one plain sentence for each mistake, with its place."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from typing import Any

from pydantic import ValidationError

from demur.library.nearest import one_of, shown
from demur.library.settings import Mistakes, UnfitSettings
from demur.serve.config.document import Document
from demur.serve.config.known_keys import KnownKeys, Steps, has
from demur.serve.config.mistake import MOST_TOLD, Mistake, told
from demur.serve.config.pydantic_words import LIMITS, OURS, WANTED, choices, sentence

LONGEST_STEP = 200
"""Characters of a key that are told; keys come from outside as well."""

KEY = "[key]"
"""In pydantic's places: the key itself is wrong, and not its value."""

ABSENT = (
    "missing",
    "union_tag_not_found",
    "missing_argument",
    "missing_keyword_only_argument",
    "missing_positional_only_argument",
)
CHOSEN = ("literal_error", "enum", "union_tag_invalid")
UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")

FIRST_STEPS = re.compile(r"([a-z_]\w*)((?:\.[\w-]+)*): ")
"""How a message of ours begins that says its place."""


@dataclass(frozen=True, kw_only=True)
class PydanticFinding:
    """One thing that pydantic found, in the place where it stands in what was sent."""

    kind: str
    context: Mapping[str, Any]
    steps: Steps
    union_at: int | None = None
    """After how many steps there was a choice between types, of which this is about one."""

    of_key: bool = False


def complaint(error: ValidationError, sent: Any = None, keys: KnownKeys | None = None) -> str:
    """What is wrong with what a caller sent, as one sentence for each mistake; of very many the first ones. Nothing of
    it is repeated but keys: values may be large, and secret."""
    words, found = _Words(sent, None, keys), list(_united(_found(error, sent)))
    said = [mistake for one in found[:MOST_TOLD] for mistake in words.mistakes(one)]
    return "; ".join(told(said, beside=len(found) - len(found[:MOST_TOLD])))


def mistakes_of(
    error: ValidationError, document: Document, keys: KnownKeys, again: Callable[[Any], object]
) -> list[Mistake]:
    """Return everything that is wrong with the content of a document, each mistake with its mark and its value, if that
    is short. A section with a key that is not known is checked `again` without it: pydantic looks at nothing else of it
    before."""
    mistakes, unknown = _mistakes(error, document.content, document, keys)
    if unknown:
        content = deepcopy(document.content)
        for *around, key in dict.fromkeys(unknown):
            del _at(content, tuple(around))[key]
        try:
            again(content)
        except ValidationError as further:
            mistakes += _mistakes(further, content, document, keys, absent=False)[0]
    return mistakes


def _mistakes(
    error: ValidationError, content: Any, document: Document, keys: KnownKeys, *, absent: bool = True
) -> tuple[list[Mistake], list[Steps]]:
    """Mistakes, and the keys that are not known. What is missing because it goes by such a key is told with that."""
    words, found = _Words(content, document, keys), list(_united(_found(error, content)))
    unknown = [one.steps for one in found if one.kind in UNKNOWN]
    meant = {place for steps in unknown for place in keys.meant(steps, content)}
    left_out = [one for one in found if one.kind in ABSENT and (one.steps in meant or not absent)]
    return [mistake for one in found if one not in left_out for mistake in words.mistakes(one)], unknown


def _found(error: ValidationError, sent: Any, base: Steps = ()) -> list[PydanticFinding]:
    return [
        _resolved(one["type"], one.get("ctx", {}), one["loc"], sent, base)
        for one in error.errors(include_url=False, include_input=False)
    ]


def _resolved(
    kind: str, context: Mapping[str, Any], loc: Sequence[str | int], sent: Any, base: Steps
) -> PydanticFinding:
    """Leave out of pydantic's place what is not in `sent`: names of types between which there was a choice."""
    content: Any = _at(sent, base)
    steps, union_at, of_key = list(base), None, False
    for place, step in enumerate((*loc, *_discriminator(context))):
        if has(content, step) or sent is None or (place >= len(loc) - 1 and kind in ABSENT):
            steps.append(step)
            content = content[step] if has(content, step) else None
        elif step == KEY:
            of_key = True
        else:
            union_at = len(steps)
    return PydanticFinding(kind=kind, context=context, steps=tuple(steps), union_at=union_at, of_key=of_key)


def _discriminator(context: Mapping[str, Any]) -> list[str]:
    """The key that says which kind of section is meant, where that is what is wrong."""
    return [context["discriminator"].strip("'")] if "discriminator" in context else []


def _united(found: Sequence[PydanticFinding]) -> Iterator[PydanticFinding]:
    """Make one thing of what pydantic says of each type between which there was a choice: what is wrong under the type
    that was meant, if that shows, else which types would do."""
    choices: dict[Steps, list[PydanticFinding]] = {}
    for one in found:
        if one.union_at is not None:
            choices.setdefault(one.steps[: one.union_at], []).append(one)
    for one in found:
        if one.union_at is None:
            yield one
            continue
        place = one.steps[: one.union_at]
        several = choices.pop(place, [])
        wrong_type = [each for each in several if each.steps == place and each.kind in WANTED]
        meant = [each for each in several if each not in wrong_type]
        if meant or not wrong_type:
            yield from meant
        else:
            wanted = " or ".join(dict.fromkeys(WANTED[each.kind] for each in wrong_type))
            first = wrong_type[0]
            kind = first.kind if len(wrong_type) == 1 else "union"
            yield PydanticFinding(kind=kind, context={"wanted": wanted}, steps=place)


class _Words:
    """Puts into words what was found in one thing."""

    def __init__(self, sent: Any, document: Document | None, keys: KnownKeys | None) -> None:
        self._sent = sent
        self._document = document
        self._keys = keys

    def mistakes(self, found: PydanticFinding) -> Iterator[Mistake]:
        if found.kind in OURS:
            yield from self._ours(found.context["error"], found.steps)
        elif found.kind in UNKNOWN:
            advice = self._keys.advice(found.steps, self._sent) if self._keys else "check its spelling and its place"
            yield self._mistake(found.steps, f"this key is not known; {advice}", of_key=True)
        else:
            yield self._mistake(found.steps, self._sentence(found), of_key=found.of_key)

    def _ours(self, error: BaseException, steps: Steps) -> Iterator[Mistake]:
        """What our own validators say. Their messages begin with the place, where that is not the section itself."""
        if isinstance(error, Mistakes):
            for one in error.found:
                yield from self._ours(one, steps)
        elif isinstance(error, UnfitSettings):
            inner, beyond, _ = self._steps_in(f"{error.within}: ", steps)
            within = (*steps, *inner, *([beyond] if beyond else []))
            for found in _united(_found(error.error, self._sent, within)):
                yield from self.mistakes(found)
        else:
            inner, beyond, text = self._steps_in(str(error), steps)
            yield self._mistake((*steps, *inner), text, beyond=beyond)

    def _steps_in(self, text: str, steps: Steps) -> tuple[Steps, str, str]:
        """Part a message into the steps that it begins with, as far as they are there, those beyond, and the rest."""
        content, taken, rest, named = _at(self._sent, steps), list[str | int](), text, False
        while not named and (key := _first_key(content, rest)) is not None:
            step: str | int = int(key) if isinstance(content, list) else key
            taken.append(step)
            content, named = content[step], rest[len(key)] == ":"
            rest = rest[len(key) + (2 if named else 1) :]
        begun = None if named else FIRST_STEPS.match(rest)
        if begun and (taken or self._sent is None or begun[1] in self._known(steps)):
            return tuple(taken), begun[1] + begun[2], rest[begun.end() :]
        if isinstance(content, Mapping) and (word := rest.split(" is ", 1)[0]) in content:
            taken.append(word)
        return tuple(taken), "", rest

    def _known(self, steps: Steps) -> list[str]:
        return self._keys.at(steps, self._sent) if self._keys else []

    def _sentence(self, found: PydanticFinding) -> str:
        value, written = _at(self._sent, found.steps), self._written(found.steps)
        if found.of_key:
            return sentence(found.kind, found.context)
        if found.kind == "union_tag_not_found" and self._keys:
            kinds = ", ".join(self._keys.kinds(found.steps[:-1], self._sent))
            return f"{sentence(found.kind, found.context)}: {kinds}"
        wanted = found.context["wanted"] if found.kind == "union" else WANTED.get(found.kind)
        if self._document is None:
            return f"{wanted} is wanted here" if wanted else sentence(found.kind, found.context)
        if found.kind in CHOSEN and isinstance(value, str):
            return one_of(value, choices(found.context))
        if wanted is None:
            short = f", not {written}" if found.kind in LIMITS and written else ""
            return sentence(found.kind, found.context) + short
        if value is None and found.kind not in ABSENT:
            return f"a value is missing here: {wanted} is wanted"
        if written is None or found.kind == "union":
            return f"{wanted} is wanted here"
        if found.kind == "string_type":
            return f"{wanted} is wanted here, and YAML reads {shown(written)} as {_read_as(value)}; put it in quotes"
        return f"{wanted} is wanted here, not {shown(written)}"

    def _written(self, steps: Steps) -> str | None:
        """A text or number as it stands in the file; None for anything else, and where there is no file."""
        if self._document is None:
            return None
        spot, taken = self._document.spot(steps)
        value = _at(self._sent, steps)
        if taken < len(steps) or spot.inside or isinstance(value, list | Mapping):
            return None
        return spot.written if spot.written is not None else str(value)

    def _mistake(self, steps: Steps, text: str, *, beyond: str = "", of_key: bool = False) -> Mistake:
        if self._document:
            return self._document.mistake(steps, text, beyond=beyond, of_key=of_key)
        place = [str(step)[:LONGEST_STEP] for step in (*steps, *([beyond] if beyond else []))]
        return Mistake(text=text, place=".".join(place))


def _first_key(content: Any, text: str) -> str | None:
    """The key of something with which a text begins; of several the longest."""
    begun = [key for key in _keys_of(content) if text.startswith((f"{key}.", f"{key}: "))]
    return max(begun, key=len, default=None)


def _keys_of(content: Any) -> list[str]:
    if isinstance(content, Mapping):
        return [key for key in content if isinstance(key, str)]
    return [str(at) for at in range(len(content))] if isinstance(content, list) else []


def _at(content: Any, steps: Steps) -> Any:
    for step in steps:
        content = content[step] if has(content, step) else None
    return content


def _read_as(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return "a date"
    return "a number" if isinstance(value, int | float) else "something else"
