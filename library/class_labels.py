"""The classes that a model tells apart, as `y` holds them and as texts, by which a service knows them."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from demur.library.class_text import class_text
from demur.library.nearest import shown
from demur.policies.prediction import MostProbable, PredictorRecipe
from demur.uncertainty.checks import Mask
from demur.uncertainty.output import Link

Classes = NDArray[Any]

MOST_NAMED = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassLabels:
    """What is decided between. It is the `Task` of a selector's settings."""

    classes: Classes
    """[C], in the order of the model's columns, with the type that they have in `y`."""

    labels: tuple[str, ...]
    """[C], the texts for them."""

    exclusive: bool
    """Whether exactly one class is right for each row."""

    predictor: PredictorRecipe
    """Which labels are predicted, where no costs say otherwise."""

    @classmethod
    def of(cls, classes: Any, *, exclusive: bool, labels: Sequence[str] | None = None) -> "ClassLabels":
        """Raise `ValueError` for fewer than two classes, and for texts that do not name each one of them."""
        known = np.asarray(classes)
        texts = tuple(labels) if labels is not None else tuple(map(class_text, known.tolist()))
        if wrong := [one for one in texts if not isinstance(one, str) or not one]:
            raise ValueError(f"labels: {wrong[0]!r} is not a text")
        if len(texts) != len(known):
            raise ValueError(f"labels: there are {len(texts)} texts, and the estimator has {len(known)} classes")
        if len(set(texts)) < len(texts):
            raise ValueError(f"labels: one text names one class, and these are not all different: {', '.join(texts)}")
        if len(known) < (2 if exclusive else 1):
            raise ValueError(f"there is one class, {known[0]!r}, and nothing to decide; 2 classes or more are needed")
        return cls(classes=known, labels=texts, exclusive=exclusive, predictor=MostProbable())

    @property
    def kind(self) -> str:
        if not self.exclusive:
            return "multilabel"
        return "binary" if len(self.classes) == 2 else "multiclass"

    @property
    def link(self) -> Link:
        return "softmax" if self.exclusive else "sigmoid"

    def truth(self, y: Any) -> Mask:
        """[n, C], True for what is right. Raise `ValueError` for a label that the estimator does not have."""
        if not self.exclusive:
            return self._indicators(y)
        found = [self._position.get(label) for label in y.tolist()]
        if None in found:
            unknown = sorted({shown(label) for label, at in zip(y.tolist(), found, strict=True) if at is None})
            more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
            raise ValueError(
                f"y has labels that the estimator does not have: {', '.join(unknown[:MOST_NAMED])}{more}; it has:"
                f" {', '.join(shown(one) for one in self.classes.tolist()[: 5 * MOST_NAMED])}"
            )
        return np.asarray(np.array(found, dtype=np.intp)[:, None] == np.arange(len(self.classes)))

    def _indicators(self, y: NDArray[Any]) -> Mask:
        if y.shape[1] != len(self.classes):
            raise ValueError(f"y has {y.shape[1]} columns, and the estimator has {len(self.classes)} labels")
        return np.asarray(y == 1)

    @cached_property
    def _position(self) -> dict[Hashable, int]:
        return {label: at for at, label in enumerate(self.classes.tolist())}


def target_of(y: Any) -> tuple[NDArray[Any], bool]:
    """Return `y` as an array, and whether exactly one class is right for each row: [n] if so, else [n, C].

    Raise `ValueError` for numbers that are no classes, and for several classes in a row that are not 0 or 1 each.
    """
    if y is None:
        raise ValueError("this classifier requires y to be passed, but the target y is None")
    y = y.toarray() if hasattr(y, "toarray") else y
    check_classification_targets(y)
    if type_of_target(y) == "multilabel-indicator":
        return np.asarray(y), False
    if type_of_target(y) == "multiclass-multioutput":
        raise ValueError("y has several columns of classes; write one column, or one column of 0 and 1 for each label")
    target = np.asarray(column_or_1d(y, warn=True))
    if not len(target):
        raise ValueError("y has 0 samples, and at least 20 to fit on and 1 to report on are needed")
    return target, True


def classes_of(told: Any, target: NDArray[Any], labels: Sequence[str] | None) -> Classes:
    """Return the classes [C], in the order of the model's columns.

    `told` are those that the estimator itself names, None for none; then they are those of the `target`, sorted, or
    those that `labels` name, of which the target may hold a part. Labels that hold together are numbered.
    """
    if target.ndim == 2:
        return np.arange(target.shape[1])
    if isinstance(told, list) and any(np.ndim(one) for one in told):
        raise ValueError("the estimator tells several labels of each row, and y has one class a row; give [n, labels]")
    if told is not None:
        return np.asarray(told)
    found = np.unique(target)
    if labels is None:
        return found
    if set(found.tolist()) <= set(labels):
        return np.array(list(labels))
    numbered = found.dtype.kind in "iu" and found[0] >= 0 and found[-1] < len(labels)
    return np.arange(len(labels)) if numbered else found
