"""The classes of a fitted estimator, held against the labels of a task."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from demur.library.class_text import class_text
from demur.library.nearest import did_you_mean
from demur.serve.config.task import TaskConfig
from demur.serve.hosts.kind import BadModel

MOST_NAMED = 10


def class_order(estimator: Any, task: TaskConfig) -> list[int]:
    """Return for each label of the task the column of the estimator. Raises `BadModel`.

    Where labels do not exclude each other the columns have no names; they stand in the order of the labels.
    """
    classes = estimator.classes_
    several = _tells_several(estimator)
    if task.exclusive == several:
        of = "several labels of each row" if several else "one class of each row"
        kind = "multilabel" if several else "multiclass"
        raise BadModel(f"task.kind: the model was trained to tell {of}, and the task is {task.kind}; write {kind}")
    if not task.exclusive:
        if len(classes) != len(task.outputs):
            raise BadModel(
                f"task.labels: the model tells {len(classes)} labels of each row, and {len(task.outputs)} are listed"
            )
        return list(range(len(classes)))
    own = [class_text(one) for one in np.asarray(classes).tolist()]
    return _order([task.rename.get(name, name) for name in own], own, task)


def _order(called: list[str], own: list[str], task: TaskConfig) -> list[int]:
    """`called`: the classes by the names that they go by here; `own`: by their own."""
    if unknown := [name for name in task.rename if name not in own]:
        raise BadModel(
            f"task.rename.{unknown[0]}: the model has no such class; it has {_listed(own)}"
            f"{did_you_mean(unknown[0], own)}"
        )
    if lacking := [label for label in task.outputs if label not in called]:
        way_out = f"write these, or give each class another name: `rename: {_renaming(own, task)}`"
        raise BadModel(f"task.labels: the model has no class {lacking[0]!r}; it has {_listed(own)}; {way_out}")
    if more := [name for name in called if name not in task.outputs]:
        raise BadModel(f"task.labels: the model also has the class {more[0]!r}; list all of {_listed(called)}")
    places: Mapping[str, int] = {name: at for at, name in enumerate(called)}
    return [places[label] for label in task.outputs]


def _renaming(own: list[str], task: TaskConfig) -> str:
    left = [label for label in task.outputs if label not in own]
    pairs = zip([name for name in own if name not in task.outputs], left, strict=False)
    return "{" + ", ".join(f'"{name}": {label}' for name, label in list(pairs)[:MOST_NAMED]) + "}"


def _tells_several(estimator: Any) -> bool:
    """Whether it was trained on rows that may have several labels."""
    if isinstance(estimator.classes_, list):
        return True
    last = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
    last = getattr(last, "best_estimator_", last)
    if getattr(last, "multilabel_", False):
        return True
    many = getattr(last, "n_outputs_", None) == len(estimator.classes_) and len(estimator.classes_) > 1
    return many and getattr(last, "out_activation_", None) == "logistic"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
