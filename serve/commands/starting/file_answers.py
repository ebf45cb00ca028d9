"""What a first configuration takes from a model's file rather than from the labelled rows."""

from pathlib import Path
from typing import Any

from demur.serve.commands.starting.label_column import as_named
from demur.serve.commands.starting.labelled_sample import LabelledSample
from demur.serve.commands.starting.model_file import ModelFileFacts

NAMES_WANTED = "what the classes of the model are called: task.labels"

MOST_SHOWN = 5
"""Classes that a question names."""

SECOND = " The second one is the positive one."


def told_by_file(facts: ModelFileFacts, sample: LabelledSample | None, file: Path) -> dict[str, Any]:
    """Return values of the template that the file knows better than the rows, and questions that it leaves open."""
    told = _labels(facts, sample, file)
    kind = _kind_of_task(facts, len(told["labels"])) if "labels" in told else {}
    return {**told, **kind, **_columns(facts, sample)}


def _labels(facts: ModelFileFacts, sample: LabelledSample | None, file: Path) -> dict[str, Any]:
    """The labels in the order of the model's outputs; nothing where the rows know as much."""
    there = sample.labels if sample else ()
    if facts.labels:
        if sample and (names := as_named(sample, facts.labels, str(file))):
            about = [f"As they are in {sample.path}, in the order of {file}."]
            return {"labels": list(names.values()), "rename": names, "about_labels": about, "labels_wanted": False}
        if not set(there) <= set(facts.labels):
            named = ", ".join(map(repr, facts.labels[:MOST_SHOWN]))
            question = f"which label is which class of the model ({named}): task.rename, as `demur check` shows"
            return {"questions": (question,)}
        about = [f"As they are in {file}.{SECOND if len(facts.labels) == 2 else ''}"]
        return {"labels": list(facts.labels), "about_labels": about, "labels_wanted": False}
    if not facts.numbered:
        return {}
    numbers = [str(n) for n in range(facts.numbered)]
    order = f"{file} knows them by their numbers only, 0 first.{SECOND if facts.numbered == 2 else ''}"
    if there and set(there) <= set(numbers):
        return {"labels": numbers, "about_labels": [order], "labels_wanted": False}
    if sample and len(there) == facts.numbered:
        about = [
            f"As they are in {sample.path}. {order}",
            "If the numbers in training were given in another order, change this one.",
        ]
        return {"about_labels": about, "labels": list(there), "labels_wanted": False}
    question = f"{NAMES_WANTED} (the model tells {facts.numbered}"
    question += f", and {sample.path} has {len(there)})" if sample and there else ")"
    about = [f"{order} Write what each of them means, in this order."]
    return {"labels": numbers, "about_labels": about, "labels_wanted": False, "questions": (question,)}


def _kind_of_task(facts: ModelFileFacts, classes: int) -> dict[str, Any]:
    if not facts.exclusive:
        return {"kind_of_task": "multilabel", "score": "binary_entropy"}
    return {"kind_of_task": "binary" if classes == 2 else "multiclass", "score": "softmax_response"}


def _columns(facts: ModelFileFacts, sample: LabelledSample | None) -> dict[str, Any]:
    """Columns by the file where it names them: it knows their categories, and where a value may be missing."""
    if facts.columns is None:
        return {"missing_anywhere": False}
    rows = dict(sample.columns) if sample else {}
    if facts.are_named:
        lack = any(_may_lack(rows[name]) for name in facts.columns if name in rows)
        return {"columns": {}, "missing_anywhere": lack and facts.takes_missing}
    if not facts.takes_missing and len(rows) == len(facts.columns):
        pairs = zip(rows.items(), facts.columns.values(), strict=True)
        rows = {name: column if own.missing else _never_lacking(column) for (name, column), own in pairs}
    return {"columns": rows, "missing_anywhere": False}


def _may_lack(column: Any) -> bool:
    return isinstance(column, dict) and bool(column.get("missing"))


def _never_lacking(column: Any) -> Any:
    """A column of which the model would read 0 in the place of a value that is missing."""
    if not isinstance(column, dict):
        return column
    left = {key: value for key, value in column.items() if key != "missing"}
    return left["kind"] if list(left) == ["kind"] else left
