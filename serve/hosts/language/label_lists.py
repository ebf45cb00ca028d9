"""Replies that name any number of labels, and where each of them stands among the tokens."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from demur.serve.config.plain_text import WRAPPING, plain
from demur.serve.hosts.language.readings import Names
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.generation import Generation, Span
from demur.uncertainty.self_report import parse_joint_confidences

NOTHING = frozenset(
    {"none", "no label", "no labels", "none of them", "none apply", "none applies", "nothing", "[]", "{}"}
)
"""How a reply says that no label applies."""

BULLET = re.compile(r"\s*+(?:[-*+\u2022\u00b7\u2013]\s+|\(?\d{1,4}[.):]\s+)")
HEAD = re.compile(r":\s|\s[-\u2013\u2014]\s|\s\(")
"""What stands between a label and what is said about it."""

BLANK = re.compile(r"[\s\u0120\u010a\u2581]+")
"""Blanks, and how vocabularies write them."""


@dataclass(frozen=True, kw_only=True)
class LabelList:
    """What a reply says."""

    named: tuple[int, ...] | None = None
    """Labels in the order of the reply, each once. Empty: none applies. None: it cannot be read."""

    places: Mapping[int, Span] = field(default_factory=dict)
    """Characters [start, stop) of each label in the text."""

    unknown: tuple[str, ...] = ()
    stated: Mapping[int, float] | None = None
    why: str = ""


def lines_read(text: str, labels: Names) -> LabelList:
    """Labels on lines of their own, or between commas; bullets and numbers before them are left out.

    A reply in which no label was found says `none`, or cannot be read.
    """
    places: dict[int, Span] = {}
    unknown: list[str] = []
    if labels.whole(text) is None and plain(text).strip(WRAPPING.replace("[]{}", "")) in NOTHING:
        return LabelList(named=())
    for start, item in _items(text, labels):
        index = labels.whole(item)
        if index is None:
            unknown += [item.strip(WRAPPING)] if item.strip(WRAPPING) else []
        else:
            places.setdefault(index, _without_wrapping(start, item))
    if not places:
        return LabelList(
            unknown=tuple(unknown), why="the reply names none of the labels" if unknown else "the reply is empty"
        )
    return LabelList(named=tuple(places), places=places, unknown=tuple(dict.fromkeys(unknown)))


def json_read(text: str, labels: Names) -> LabelList:
    """One JSON object label -> confidence. Labels are spelled as the task spells them."""
    try:
        joint = parse_joint_confidences(text, labels.names)
    except InvalidInput as error:
        return LabelList(why=str(error))
    if joint.unknown and not joint.confidences:
        return LabelList(unknown=joint.unknown, why="the reply names none of the labels")
    position = {name: index for index, name in enumerate(labels.names)}
    stated = {position[name]: confidence for name, confidence in joint.confidences.items()}
    places: dict[int, Span] = {}
    cursor = 0
    for name in joint.confidences:
        for spelled in (json.dumps(name, ensure_ascii=False), json.dumps(name)):
            at = text.find(spelled, cursor)
            if at >= 0:
                places[position[name]] = (at + 1, at + len(spelled) - 1)
                cursor = at + len(spelled)
                break
    return LabelList(named=tuple(stated), places=places, unknown=joint.unknown, stated=stated)


def _items(text: str, labels: Names) -> Iterator[tuple[int, str]]:
    """Where each thing that may be a label starts, and what it is."""
    start = 0
    for line in text.splitlines(keepends=True):
        yield from _of_line(start, line.rstrip("\r\n"), labels)
        start += len(line)


def _of_line(start: int, line: str, labels: Names) -> Iterator[tuple[int, str]]:
    if labels.whole(line) is None and (bullet := BULLET.match(line)):
        start, line = start + bullet.end(), line[bullet.end() :]
    if labels.whole(line) is not None:
        yield start, line
        return
    if (head := HEAD.search(line)) and labels.whole(line[: head.start()]) is not None:
        yield start, line[: head.start()]
        return
    for part in re.split(r"([,;])", line):
        if part not in ",;" or labels.whole(part) is not None:
            yield start, part
        start += len(part)


def _without_wrapping(start: int, item: str) -> Span:
    bare = item.strip(WRAPPING) or item.strip()
    start += item.index(bare)
    return start, start + len(bare)


def token_spans(places: Mapping[int, Span], reply: Generation) -> dict[int, Span]:
    """Tokens of `reply` that hold each of these characters of its text, those at the borders included.

    Blanks are left out of account, because engines differ in how they tell them. A label that cannot be found among
    the tokens has no span.
    """
    first, stop = reply.answer
    owner: list[int] = []
    written = ""
    for index in range(first, stop):
        bare = BLANK.sub("", reply.tokens[index])
        written += bare
        owner += [index] * len(bare)
    text = BLANK.sub("", reply.text)
    offset = written.find(text) if text else -1
    spans: dict[int, Span] = {}
    cursor, seen, before = 0, 0, 0
    for label, (start, end) in sorted(places.items(), key=lambda place: place[1]):
        bare = BLANK.sub("", reply.text[start:end])
        before, seen = before + len(BLANK.sub("", reply.text[seen:start])), start
        if not bare:
            continue
        # where tokens tell some characters otherwise, labels are looked for in turn
        at = offset + before if offset >= 0 else written.find(bare, cursor)
        if at < 0:
            continue
        cursor = at + len(bare)
        spans[label] = (owner[at], owner[cursor - 1] + 1)
    return spans
