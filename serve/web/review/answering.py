"""How a case is answered on its page: which labels it offers, in which form, and by which keys."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from demur.serve.config.review_models import NO_WORDS
from demur.serve.config.review_words import ModelWords
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.web.review.label_search import search_of
from demur.traffic.record import Answer

DIGITS = tuple("1234567890")
FEW = len(DIGITS)
"""So many labels have a key each."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "none": ("0y=", "None of the labels holds"),
    "accept": ("af&", "Take what the model says"),
    "cannot": ("x-", "Cannot tell: say why"),
    "comment": ("co,", "Write a comment"),
    "release": ("gr_", "Give the case back"),
    "skip": ("s;$", "Skip the case: not for me again"),
    "undo": ("ul<", "Take the last answer back"),
    "next": ("nj>", "Take the next case"),
    "correct": ("e*", "Correct the reply"),
    "trace": ("t|", "Show how the model came to its reply"),
    "raw": ("m~", "Show the reply as it was written, or rendered"),
    "again": ("b^", "Take a case that you gave back"),
    "zoom": ("zv+", "Enlarge the picture"),
    "pixels": ("pd%", "Show the pixels, or the smooth picture"),
    "queue": ("qw.", "Back to the queue"),
    "find": ("k@", "Find a case: by its id, or by what is written in it"),
    "guide": ("?i", "Show how cases are judged, and what the labels mean"),
    "help": ("h!", "Show or hide all keys"),
}
"""The keys of each command, the first that no label has taken, and what it does."""

PREFIXES = "/:>="
"""Where labels are found by typing, a command is one of these in the empty search box, and then its key."""

REASONS = ("It is not legible", "More than one label fits", "No label fits", "Something is missing")
"""Why a case often cannot be told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelChoice:
    """A label that can be chosen."""

    label: str
    key: str | None = None
    depth: int = 0
    """In the tree of labels."""

    above: tuple[str, ...] = ()
    """The labels right above it."""

    title: str = ""
    """What the configuration or the file of labels says beside it."""

    share: float | None = None
    """How probable the model found it, where that may be shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerForm:
    """What a person can press."""

    form: Literal["buttons", "list", "ticks"]
    """One press answers; one of a list; several at once."""

    choices: tuple[LabelChoice, ...]
    keys: Mapping[str, str]
    """Of each command: what is pressed for it. With a search box it is the prefix and a key."""

    prefix: str = ""
    """What begins a command in the search box; empty where there is none."""

    n_labels: int = 0
    """How many labels the model has, where `choices` are only some of them and the others are looked up."""

    @property
    def searched(self) -> bool:
        """Whether there are so many labels that one types to find one."""
        return self.n_labels > 0 or len(self.choices) > FEW

    @property
    def tree(self) -> bool:
        return any(choice.above for choice in self.choices)

    @property
    def span(self) -> str:
        """The keys of the labels, in words."""
        keys = [choice.key for choice in self.choices if choice.key]
        follow_on = all(ord(later) - ord(key) in (1, -9) for key, later in pairwise(keys))  # 0 comes behind 9
        return ", ".join(keys) if len(keys) < 3 or not follow_on else f"{keys[0]}–{keys[-1]}"


def answering(
    task: TaskConfig | None, options: int = 0, offered: Sequence[LabelChoice] = (), words: ModelWords = NO_WORDS
) -> AnswerForm:
    """How a case of this task is answered, where the question has so many options (0: it has none). Of a sparse task
    only the labels that are `offered` are on the page. Without a task, which is no longer served, nothing can be
    chosen. `words`: titles and keys of labels."""
    if task is None:
        return AnswerForm(form="list", choices=(), keys=command_keys(()))
    if task.sparse:
        prefix = prefix_but(search_of(task.table).first_characters)
        return AnswerForm(
            form="list" if task.exclusive else "ticks",
            choices=tuple(offered),
            keys=command_keys((), prefix),
            prefix=prefix,
            n_labels=len(task.labels),
        )
    labels = task.labels[: options or None]
    choices = in_tree(task) if task.tree else [LabelChoice(label=label) for label in labels]
    keys = label_keys([one.label for one in choices] if words.keys else labels, words.keys)
    titles = words.titles
    if keys or titles:
        choices = [
            replace(one, key=key, title=titles.get(one.label, ""))
            for one, key in zip(choices, keys or [None] * len(choices), strict=True)
        ]
    form: Literal["buttons", "list", "ticks"] = "ticks" if not task.exclusive else "buttons" if keys else "list"
    prefix = "" if keys else search_prefix(labels)
    return AnswerForm(form=form, choices=tuple(choices), keys=command_keys(keys, prefix), prefix=prefix)


def chosen_labels(labels: Sequence[str], *, none: bool, exclusive: bool) -> Answer:
    """Return what a form says. That no label holds is taken only from the button that says so (`none`)."""
    if exclusive:
        if len(labels) != 1:
            raise InvalidRequest("choose one label")
        return labels[0]
    if none and labels:
        raise InvalidRequest(
            f"{', '.join(labels)} is ticked, and 'None of these' was pressed: untick, or send the ticks"
        )
    if not none and not labels:
        raise InvalidRequest("no label is ticked: tick those that hold, or press 'None of these' if none does")
    return list(labels)


def label_keys(labels: Sequence[str], given: Mapping[str, str] = MappingProxyType({})) -> tuple[str, ...]:
    """A key for each label: the one that is given, itself where every label is one character, the first letter of yes
    and no, else its place. None where there are many."""
    if len(labels) > FEW:
        return ()
    if given:
        left = iter([digit for digit in DIGITS if digit not in given.values()])
        return tuple(given[label] if label in given else next(left) for label in labels)
    own = tuple(label.lower() for label in labels)
    if all(len(one) == 1 and one.isascii() and one.isalnum() for one in own) and len(set(own)) == len(own):
        return own
    if sorted(own) == ["no", "yes"]:
        return tuple(label[0] for label in own)
    return DIGITS[: len(labels)]


def command_keys(taken: Sequence[str], prefix: str = "") -> dict[str, str]:
    """The key of each command: its first that is not that of a label, behind the prefix."""
    return {name: prefix + next(key for key in keys if key not in taken) for name, (keys, _) in COMMANDS.items()}


def search_prefix(labels: Sequence[str]) -> str:
    """Return the first prefix of commands with which no label begins; the last one where all do."""
    return prefix_but({label[:1] for label in labels})


def prefix_but(taken: Collection[str]) -> str:
    """Return the first prefix of commands that is not one of these characters; the last one where all are."""
    return next((one for one in PREFIXES if one not in taken), PREFIXES[-1])


def in_tree(task: TaskConfig) -> list[LabelChoice]:
    """The labels from the top down, each below the first of those above it, and neighbours by name."""
    tree = task.tree
    assert tree is not None
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for child, parent in zip(*(side.tolist() for side in tree.links), strict=True):
        above.setdefault(child, []).append(parent)
    for child, parents in above.items():
        below.setdefault(parents[0], []).append(child)
    found: list[LabelChoice] = []
    roots = (at for at in range(tree.width) if at not in above)
    left = [(at, 0) for at in sorted(roots, key=task.labels.__getitem__, reverse=True)]
    while left:
        at, depth = left.pop()
        ancestors = tuple(task.labels[parent] for parent in above.get(at, ()))
        found.append(LabelChoice(label=task.labels[at], depth=depth, above=ancestors))
        under = sorted(below.get(at, ()), key=task.labels.__getitem__, reverse=True)
        left.extend((child, depth + 1) for child in under)
    return found
