"""Labelled rows as a task takes them: their inputs read, and what is right about each of them."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from demur.library.nearest import did_you_mean
from demur.serve.config.task import LETTERS, TaskConfig
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.hosts.language.forms import option_of
from demur.serve.hosts.language.matching import is_right
from demur.traffic.dataset import LabelledFile, SpreadRow
from demur.traffic.record import Answer
from demur.traffic.table_file import BadDataFile
from demur.uncertainty.checks import Mask
from demur.uncertainty.output import NO_LABEL, Output

Read = TypeVar("Read")

ANOTHER_COLUMN = "; no row has one of these, so name the right column: --label-column or calibration.label_column"

MOST_ROWS_NAMED = 5
"""Further rows that a complaint numbers."""

LONGEST_CELL = 60


class LabelSource(Protocol):
    """What was said of rows: `LabelledFile`, or a part of it."""

    @property
    def labels(self) -> Sequence[Answer]: ...

    @property
    def said(self) -> Sequence[Answer | None] | None: ...


def rows_read(rows: LabelledFile, read: Callable[[Any], Read], *, at_a_time: int) -> Iterator[list[Read]]:
    """Yield the inputs as `read` returns them, so many at a time: a picture takes far more room read than written.

    Every input is read once before the first of them is yielded: raises `BadDataFile` for one that is refused.
    """
    check_read(rows, read)
    for start in range(0, len(rows), at_a_time):
        yield [read(value) for value in rows.inputs[start : start + at_a_time]]


def check_read(rows: LabelledFile, read: Callable[[Any], Any]) -> None:
    """Raise `BadDataFile` where `read` refuses an input with `InvalidRequest`: with the first, and how many more."""
    if refused := list(rows_refused(rows, read)):
        raise BadDataFile(refusal(rows, refused))


def rows_refused(rows: LabelledFile, read: Callable[[Any], Any]) -> Iterator[tuple[int, str]]:
    """Yield the number of each row whose input `read` refuses with `InvalidRequest`, and why, with the cell."""
    for number, value in enumerate(rows.inputs, start=1):
        try:
            read(value)
        except InvalidRequest as error:
            yield number, f"{error}{_cell_in_words(str(error), value)}"


def refusal(rows: LabelledFile, refused: Sequence[tuple[int, str]]) -> str:
    """Return a sentence about rows that are refused, of which there is at least one."""
    (number, why), *others = refused
    more = ""
    if others:
        named = ", ".join(str(at) for at, _ in others[:MOST_ROWS_NAMED])
        rest = ", ..." if len(others) > MOST_ROWS_NAMED else ""
        more = f" ({len(others):,} more row{'s' if len(others) > 1 else ''} cannot be read: {named}{rest})"
    return f"{rows.path}, row {number}: {why}{more}"


def _cell_in_words(error: str, value: Any) -> str:
    """What stands in the column that a message about a row is about, where a file spreads inputs over columns."""
    column, colon, _ = error.removeprefix("input.").partition(": ")
    if not colon or not error.startswith("input.") or not isinstance(value, SpreadRow) or column not in value:
        return ""
    cell = value[column]
    shown = cell if isinstance(cell, str) else json.dumps(cell, default=str)
    return f" (the cell has {shown[:LONGEST_CELL]!r}{'...' if len(shown) > LONGEST_CELL else ''})"


def truth_of(rows: LabelledFile, task: TaskConfig) -> Mask:
    """[n, C], True for what each row is labelled with, and what lies above that.

    A choice is labelled with a letter, or with the text of an option. Of texts it is not known whether they are right
    before they are written: here all are, and `truth_about` says more. Of a sparse task there is one column, since the
    others are known only with the candidates: see `about_candidates`.
    """
    for number, label in enumerate(rows.labels, start=1):
        if isinstance(label, str) != task.exclusive:
            wanted = "one label, as a text" if task.exclusive else "a list of labels, which may be empty"
            raise BadDataFile(f"{rows.path}, row {number}: a {task.kind} task takes {wanted}, not {label!r}")
    sets = [[label] if isinstance(label, str) else label for label in rows.labels]
    if task.kind == "generate":
        sets = [["right"]] * len(rows)
    if task.kind == "choice":
        pairs = zip(sets, rows.inputs, strict=True)
        sets = [[_letter(label, value, rows, number)] for number, ((label,), value) in enumerate(pairs, start=1)]
    index = task.table.index
    unknown = sorted({label for labels in sets for label in labels if label not in index})
    if unknown:
        meant = did_you_mean(unknown[0], task.labels)
        none = "" if meant or any(label in index for labels in sets for label in labels) else ANOTHER_COLUMN
        raise BadDataFile(
            f"{rows.path}: labels that the model does not have: {', '.join(unknown[:10])};"
            f" it has: {', '.join(task.labels[:50])}{meant}{none}"
        )
    if task.sparse:
        return np.ones((len(rows), 1), dtype=bool)
    truth = np.zeros((len(rows), len(index)), dtype=bool)
    for row, labels in enumerate(sets):
        truth[row, [index[label] for label in labels]] = True
    return task.closed(truth)


def is_label_of(label: Answer, value: Any, task: TaskConfig) -> bool:
    """Whether a label of the log may be right about this input as the task is now."""
    labels = [label] if isinstance(label, str) else label
    if isinstance(label, str) != task.exclusive or not all(one in task.table.index for one in labels):
        return False
    options = value.get("options") if task.kind == "choice" and isinstance(value, dict) else None
    return not isinstance(options, list) or option_of(label, options) is not None


def truth_about(output: Output, rows: LabelSource, truth: Mask, task: TaskConfig) -> Mask:
    """Return what is right once it is known what the model said, `output` about these rows. Texts are compared with the
    right ones. Where people judged logged texts, their word counts for texts that are the same again: see
    `said_again`."""
    if task.kind != "generate":
        return truth
    right = np.array(
        [
            label == "right" if rows.said is not None else is_right(text, label, task.match)
            for text, label in zip(texts_of(output), map(str, rows.labels), strict=True)
        ],
        dtype=bool,
    )
    return np.column_stack([right, ~right])


def about_candidates(output: Output, labels: Sequence[Answer], task: TaskConfig) -> tuple[Output, Mask]:
    """Return a sparse output and what holds, a column for each candidate.

    Where labels exclude each other, a right label that is no candidate is one of all others together, the last column.
    Where they do not, each such label gets a column behind the candidates, with the probability 0.
    """
    assert output.slots is not None
    told = [[label] if isinstance(label, str) else label for label in labels]
    right = [[task.table.index[one] for one in row] for row in told]
    truth = np.array([np.isin(slots, row) for slots, row in zip(output.slots, right, strict=True)], dtype=bool)
    if task.exclusive:
        truth[:, -1] = ~truth.any(axis=1)
        return output, truth
    absent = [sorted(set(row) - set(slots.tolist())) for slots, row in zip(output.slots, right, strict=True)]
    more = max(map(len, absent))
    slots = np.full((len(output), more), NO_LABEL, dtype=np.int32)
    for at, row in enumerate(absent):
        slots[at, : len(row)] = row
    nothing = Output.from_probabilities(np.zeros(slots.shape), link=task.link)
    wider = replace(
        output,
        slots=np.hstack([output.slots, slots]),
        probabilities=np.hstack([output.probabilities, nothing.probabilities]),
        logits=np.hstack([output.logits, nothing.logits]),
    )
    return wider, np.hstack([truth, slots != NO_LABEL])


def said_again(output: Output, said: Sequence[Answer | None] | None, task: TaskConfig) -> Mask:
    """[n], False for a text that is not the logged one, which `said` holds, and about which somebody said whether it is
    right. None: the labels are not those of the log."""
    if task.kind != "generate" or said is None:
        return np.ones(len(output), dtype=bool)
    return np.array([text == logged for text, logged in zip(texts_of(output), said, strict=True)], dtype=bool)


def texts_of(output: Output) -> list[str]:
    """What a language model wrote."""
    assert output.replies is not None
    return [replies.first.text for replies in output.replies]


def _letter(label: str, value: Any, rows: LabelledFile, number: int) -> str:
    """Raises `BadDataFile` for a letter that is none of the question's options, or a text that is none of them."""
    options = value.get("options") if isinstance(value, dict) else None
    if not isinstance(options, list):
        return label
    index = option_of(label, options)
    if index is None:
        raise BadDataFile(f"{rows.path}, row {number}: {label!r} is neither the letter nor the text of an option")
    return LETTERS[index]
