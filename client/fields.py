"""Reading JSON from outside: each value has the type that is expected, or a sentence says which has not."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from demur.client.errors import BadReply

T = TypeVar("T")


class Fields:
    """An object of a reply. Every reading raises `BadReply` where the value is not there, or of another type."""

    def __init__(self, told: Any, what: str) -> None:
        if not isinstance(told, Mapping):
            raise BadReply(f"{what}: the service sent {_kind(told)} where an object is expected")
        self.raw: Mapping[str, Any] = told
        self._what = what

    def text(self, name: str) -> str:
        return self._read(name, str, "a text")

    def optional_text(self, name: str) -> str | None:
        return None if self.raw.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        return self._read(name, bool, "true or false")

    def whole_number(self, name: str) -> int:
        value = self._read(name, int, "a whole number")
        if isinstance(value, bool):
            raise self._wrong(name, "a whole number")
        return value

    def optional_whole_number(self, name: str) -> int | None:
        return None if self.raw.get(name) is None else self.whole_number(name)

    def optional_number(self, name: str) -> float | None:
        value = self.raw.get(name)
        return None if value is None else self._number(name, value)

    def numbers(self, name: str) -> dict[str, float | None]:
        """An object of numbers, some of which may be null."""
        told: dict[Any, Any] = self._read(name, dict, "an object of numbers")
        return {str(key): None if value is None else self._number(name, value) for key, value in told.items()}

    def answer(self, name: str) -> str | list[str] | None:
        """A label, a list of labels, or null."""
        value = self.raw.get(name)
        return value if value is None or isinstance(value, str) else self.texts(name)

    def texts(self, name: str) -> list[str]:
        told: list[Any] = self._read(name, list, "a list of texts")
        if not all(isinstance(one, str) for one in told):
            raise self._wrong(name, "a list of texts")
        return list(told)

    def optional_texts(self, name: str) -> list[str] | None:
        return None if self.raw.get(name) is None else self.texts(name)

    def time(self, name: str) -> datetime:
        try:
            return datetime.fromisoformat(self.text(name))
        except ValueError:
            raise self._wrong(name, "a time such as 2026-11-21T08:00:00+00:00") from None

    def optional_time(self, name: str) -> datetime | None:
        return None if self.raw.get(name) is None else self.time(name)

    def object(self, name: str, read: Callable[["Fields"], T]) -> T:
        return read(Fields(self.raw.get(name), f"{self._what}, {name}"))

    def optional_object(self, name: str, read: Callable[["Fields"], T]) -> T | None:
        return None if self.raw.get(name) is None else self.object(name, read)

    def objects(self, name: str, read: Callable[["Fields"], T]) -> list[T]:
        told: list[Any] = self._read(name, list, "a list of objects")
        return [read(Fields(one, f"{self._what}, {name}")) for one in told]

    def _read(self, name: str, kind: type[T], wanted: str) -> T:
        value = self.raw.get(name)
        if not isinstance(value, kind):
            raise self._wrong(name, wanted)
        return value

    def _number(self, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "a number")
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(name, "a number of 64 bits") from None

    def _wrong(self, name: str, wanted: str) -> BadReply:
        there = _kind(self.raw[name]) if name in self.raw else "nothing"
        return BadReply(f"{self._what}: the service sent {there} as {name!r}, where {wanted} is expected")


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), "something else")
