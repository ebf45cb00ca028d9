"""Settings as people write them, in YAML or in Python, turned into parts.

Whoever checks settings says with `ValueError` what is wrong. Where that is not about the whole section, the message
begins with the keys that lead to it from there: `policy.matrix: write a row of costs`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from types import TracebackType
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from demur.library.nearest import did_you_mean, one_of


class Mistakes(ValueError):
    """Several things are wrong in one section: `found`."""

    found: Sequence[ValueError] = ()

    @classmethod
    def of(cls, found: Sequence[ValueError]) -> "Mistakes":
        error = cls("; ".join(map(str, found)))
        error.found = tuple(found)
        return error


class UnfitSettings(ValueError):
    """Settings do not fit the part that they are for. `error` says why, of the settings that stand in `within`."""

    error: ValidationError
    within: str

    @classmethod
    def of(cls, error: ValidationError, within: str) -> "UnfitSettings":
        unfit = cls("; ".join(_told(one, within) for one in error.errors(include_url=False)))
        unfit.error, unfit.within = error, within
        return unfit


def _told(found: ErrorDetails, within: str) -> str:
    """One thing that pydantic found, with its place."""
    place = ".".join(map(str, (within, *found["loc"])))
    ours = found.get("ctx", {}).get("error")
    return f"{place}: {ours or found['msg'][:1].lower() + found['msg'][1:]}"


class GatheredMistakes(AbstractContextManager["GatheredMistakes"]):
    """Several checks, each under `with`, whose mistakes are raised together in the end."""

    def __init__(self) -> None:
        self._found: list[ValueError] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, ValueError):
            self._found.append(error)
        return isinstance(error, ValueError)

    def check(self) -> None:
        """Raise what was found."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise Mistakes.of(self._found)


def check_numbers(values: Mapping[str, Any], wanted: Mapping[str, Any], within: str = "") -> None:
    """Raise `ValueError` for true or false where only a number is `wanted`, in a value or inside of it."""
    gathered = GatheredMistakes()
    for name, value in values.items():
        types = set(_types_in(wanted[name]))
        if types & {int, float} and not types & {bool, Any} and not any(_is_section(one) for one in types):
            for place, truth in _truths(f"{within}{name}", value):
                with gathered:
                    raise ValueError(f"{place}: a number is wanted here, and YAML reads this as {str(truth).lower()}")
    gathered.check()


def _types_in(annotation: Any) -> Iterator[Any]:
    """The types of which an annotation is made."""
    yield annotation
    for one in get_args(annotation):
        yield from _types_in(one)


def _is_section(one: Any) -> bool:
    return isinstance(one, type) and issubclass(one, BaseModel)


def _truths(place: str, value: Any) -> Iterator[tuple[str, bool]]:
    if isinstance(value, bool):
        yield place, value
    elif isinstance(value, Mapping | list | tuple):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, one in inner:
            yield from _truths(f"{place}.{name}", one)


def settings_of(table: Mapping[str, Callable[..., Any]]) -> set[str]:
    """Every setting of every part that a table offers."""
    return {field.name for kind in table.values() if isinstance(kind, type) for field in fields(kind)}


def named(place: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the settings of an entry that is a name, or one name with its settings."""
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, dict) and len(entry) == 1:
        name, settings = next(iter(entry.items()))
        if isinstance(settings, dict):
            return name, settings
    several = f", and not {', '.join(map(str, entry))} together" if isinstance(entry, dict) and len(entry) > 1 else ""
    raise ValueError(
        f"{place}: write a name, or one name with its settings{several}, like `mahalanobis: {{shrinkage: 0.1}}`"
    )


def part(
    place: str,
    table: Mapping[str, Callable[..., Any]],
    name: Any,
    settings: dict[str, Any],
    *,
    within: str | None = None,
    also: Iterable[str] = (),
) -> Any:
    """Build what a table offers under this name, from settings whose names and types are checked. `place` leads to the
    name; the settings stand `within` another section, or else under the name."""
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{place}: {one_of(name, (*table, *also))}")
    kind = table[name]
    within = f"{place}.{name}" if within is None else within
    offered = [field.name for field in fields(kind)] if isinstance(kind, type) else []
    if unknown := [setting for setting in settings if setting not in offered]:
        takes = f"{name} has no such setting; it takes: {', '.join(offered) or 'none'}"
        raise Mistakes.of(
            [ValueError(f"{within}.{setting}: {takes}{did_you_mean(setting, offered)}") for setting in unknown]
        )
    if not isinstance(kind, type):
        return kind()
    check_numbers(settings, get_type_hints(kind), f"{within}.")
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        raise UnfitSettings.of(error, within) from None
