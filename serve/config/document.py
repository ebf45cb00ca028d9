"""A YAML file as plain values, with the line and column of every key and value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from demur.serve.config.mistake import Mark, Mistake
from demur.serve.config.yaml_trouble import NotYaml, in_words
from demur.traffic.text_file import NotText, read_text

MOST_VALUES = 200_000
"""Of one file, with each value counted as often as aliases repeat it: a few lines of aliases of aliases could otherwise
stand for more values than there is memory."""

DEEPEST = 100
"""Levels of lists and mappings within each other."""

TAG = "tag:yaml.org,2002:"
AS_TEXT = {f"{TAG}value", f"{TAG}merge"}
"""What YAML has a meaning for as a key, and is a text as a value: `=` and `<<`."""

TAKEN = {f"{TAG}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "seq", "map")} | AS_TEXT

ODD_NUMBER = re.compile(r"[-+]?0[0-7_]+|.*:.*")
"""`010`, which YAML reads as 8, and `1:30`, which it reads as 90."""

Step = str | int


@dataclass(slots=True)
class Spot:
    """Where a value stands, and what is inside it."""

    mark: Mark
    key: Mark | None = None
    written: str | None = None
    """A text or number as it is written; None for a list or mapping, and for what stands in quotes."""

    inside: dict[Step, "Spot"] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Document:
    """What a file says."""

    path: Path
    content: Any
    root: Spot
    mistakes: tuple[Mistake, ...]
    """What is wrong with it, whatever it is about."""

    def spot(self, steps: Sequence[Step]) -> tuple[Spot, int]:
        """Where a value stands, or the innermost thing around it that is there, and how many steps lead to it."""
        spot = self.root
        for taken, step in enumerate(steps):
            if step not in spot.inside:
                return spot, taken
            spot = spot.inside[step]
        return spot, len(steps)

    def mistake(self, steps: Sequence[Step], text: str, *, beyond: str = "", of_key: bool = False) -> Mistake:
        """A mistake with the mark of what these steps lead to: of the value; or of the key, where that is wrong, or
        where the value is not there. `beyond`: further keys, which nobody has written."""
        spot, taken = self.spot(steps)
        around = of_key or bool(beyond) or taken < len(steps)
        place = ".".join(str(step) for step in (*steps, *([beyond] if beyond else [])))
        return Mistake(text=text, place=place, mark=(spot.key or spot.mark) if around else spot.mark)


def read_document(path: Path) -> Document:
    """Read a file. Raises `NotYaml` where nothing can be made of it."""
    try:
        loader = yaml.SafeLoader(read_text(path))
        node = loader.get_single_node()
    except NotText as error:
        raise NotYaml(str(error)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise NotYaml(f"{path}{in_words(error)}") from None
    reading = _Reading(path, loader)
    content, root = (None, Spot(Mark(1, 1))) if node is None else reading.value(node, "", None)
    return Document(path=path, content=content, root=root, mistakes=tuple(reading.mistakes))


class _Reading:
    """Turns nodes into values. Aliases are followed here, and so are counted."""

    def __init__(self, path: Path, loader: yaml.SafeLoader) -> None:
        self._path = path
        self._loader = loader
        self._count = 0
        self._open: list[yaml.Node] = []
        self.mistakes: list[Mistake] = []

    def value(self, node: yaml.Node, place: str, key: Mark | None) -> tuple[Any, Spot]:
        spot = Spot(_mark(node), key)
        if node.tag not in TAKEN:
            self._wrong(node, place, f"the tag {node.tag.replace(TAG, '!!')} is not taken here; leave it out")
        if isinstance(node, yaml.ScalarNode):
            self._count_one(node)
            spot.written = None if node.style in ("'", '"') else node.value
            return self._scalar(node, place), spot
        self._enter(node)
        content: Any
        if isinstance(node, yaml.SequenceNode):
            content = []
            for at, child in enumerate(node.value):
                item, spot.inside[at] = self.value(child, _joined(place, at), None)
                content.append(item)
        else:
            assert isinstance(node, yaml.MappingNode)
            content = {}
            for name, (key_node, child) in self._pairs(node, place).items():
                content[name], spot.inside[name] = self.value(child, _joined(place, name), _mark(key_node))
        self._open.pop()
        return content, spot

    def _pairs(self, node: yaml.MappingNode, place: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Keys with their values, those of `<<` first, so that what is written here stands over them."""
        merged: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        own: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._wrong(key, place, "a key is a text, and this is a list or mapping")
                continue
            if first := own.get(key.value):
                text = f"this key is there twice, first in line {_mark(first[0]).line}"
                self._wrong(key, _joined(place, key.value), text)
            own[key.value] = key, child
            if key.tag == f"{TAG}merge":
                merged |= self._merged(child, place)
        return merged | {name: pair for name, pair in own.items() if pair[0].tag != f"{TAG}merge"}

    def _merged(self, node: yaml.Node, place: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if not isinstance(source, yaml.MappingNode):
                self._wrong(source, place, "`<<` takes a mapping, such as an alias of one, or a list of them")
                continue
            self._enter(source)
            pairs |= self._pairs(source, place)  # the earliest of several stands over the others
            self._open.pop()
        return pairs

    def _scalar(self, node: yaml.ScalarNode, place: str) -> Any:
        if node.tag not in TAKEN - AS_TEXT:
            return node.value
        try:
            value = self._loader.construct_object(node)
        except (ValueError, OverflowError, yaml.YAMLError):
            self._wrong(node, place, f"YAML can make nothing of {node.value[:40]!r}; put it in quotes if it is a text")
            return node.value
        if node.tag in (f"{TAG}int", f"{TAG}float") and ODD_NUMBER.fullmatch(node.value):
            self._wrong(
                node, place, f"YAML reads {node.value!r} as the number {value}; write that, or put a text in quotes"
            )
        return value

    def _enter(self, node: yaml.Node) -> None:
        """Go into a list or mapping; `_open.pop()` comes out of it."""
        self._count_one(node)
        if any(node is around for around in self._open):
            self._give_up(node, "what this alias stands for holds the alias itself")
        if len(self._open) >= DEEPEST:
            self._give_up(node, f"more than {DEEPEST} lists and mappings lie within each other here")
        self._open.append(node)

    def _count_one(self, node: yaml.Node) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            self._give_up(node, f"the file stands for more than {MOST_VALUES:,} values, aliases counted")

    def _wrong(self, node: yaml.Node, place: str, text: str) -> None:
        self.mistakes.append(Mistake(text=text, place=place, mark=_mark(node)))

    def _give_up(self, node: yaml.Node, text: str) -> None:
        raise NotYaml(f"{self._path}, {_mark(node)}: {text}")


def _mark(node: yaml.Node) -> Mark:
    return Mark(node.start_mark.line + 1, node.start_mark.column + 1)


def _joined(place: str, step: Step) -> str:
    return f"{place}.{step}" if place else str(step)
