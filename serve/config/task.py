"""What a model decides between: its labels, which of them lie above which, and from when on they are predicted."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from demur.library.recipe import label_limits
from demur.library.settings import Mistakes
from demur.policies.closed_labels import ClosedLabelLimits
from demur.policies.hierarchy import imdrf_parents, tree_over
from demur.policies.one_label_limit import OneLabelLimit
from demur.policies.prediction import MostProbable, PredictorRecipe
from demur.serve.config.label_table import BadLabelFile, LabelTable, read_labels
from demur.serve.config.mistake import MOST_TOLD
from demur.serve.config.settings import Section
from demur.serve.config.tree_file import as_parents, read_parents
from demur.uncertainty.checks import InvalidInput, Mask
from demur.uncertainty.label_tree import LabelTree
from demur.uncertainty.output import Link

LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
OWN_LABELS = {"choice": LETTERS[:10], "generate": ("right", "wrong")}
ONLY_LANGUAGE = frozenset(OWN_LABELS)
"""Kinds of task that only a language model can have."""


class TaskConfig(Section):
    """What the model decides between."""

    kind: Literal["binary", "multiclass", "multilabel", "choice", "generate"]
    """One of two labels; one of several; each label by itself; and, for language models alone, one of the options that
    come with a question, or any text."""

    outputs: tuple[str, ...] = Field(default=(), alias="labels", max_length=10_000)
    """In the order of the checkpoint's outputs. In a binary task the second one is the positive one. Of `choice`, the
    letters of as many options as a question may have, by default A to J. `generate` has none to be given: its text is
    `right` or `wrong`."""

    label_file: Path | None = None
    """Of a sparse task: the file that `labels` names, with one label on each line, and its title behind a tab if it
    has one."""

    sparse: bool = False
    """Whether a prediction names some candidates among very many labels, which stand in a file. For predictions that
    are made elsewhere."""

    rename: dict[str, str] = Field(default={})
    """Classifiers: what is called otherwise here than in the checkpoint, from its name to yours."""

    match: Literal["exact", "number", "contains"] = "exact"
    """`generate`: when a text is right, once the right one is known: they are the same but for case, blanks and the
    stop at the end; the last number in it is the right one's; or the right one occurs in it."""

    parents: Literal["imdrf"] | dict[str, list[str]] | None = Field(default=None, alias="tree")
    """Which labels of a multilabel task lie above which: `imdrf` for labels that are IMDRF codes, a mapping from child
    to parent, or a file of such pairs, which is read at once. Labels and probabilities are closed upwards."""

    thresholds: str | dict[str, dict[str, Any]] | None = None
    """From which probability on a label of a multilabel task is predicted: `fixed` (0.5, or another `limit`),
    `max_f1`, each label's own, or `risk_control`, one that misses at most a share `alpha` of the labels."""

    @field_validator("parents", mode="before")
    @classmethod
    def tree_is_read(cls, value: Any) -> Any:
        if value in (None, "imdrf"):
            return value
        return read_parents(Path(value)) if isinstance(value, str | Path) else as_parents(value)

    @model_validator(mode="before")
    @classmethod
    def labels_that_are_given(cls, values: Any) -> Any:
        """Those of a kind that brings its own."""
        if not isinstance(values, Mapping):
            return values
        if values.get("sparse") and isinstance(path := values.get("labels"), str | Path):
            return {**{key: value for key, value in values.items() if key != "labels"}, "label_file": path}
        labels, kind = values.get("labels", values.get("outputs")), values.get("kind")
        own = OWN_LABELS.get(kind) if isinstance(kind, str) else None
        if own and not labels:
            return {**values, "labels": own}
        if kind == "generate" and (not isinstance(labels, list | tuple) or tuple(labels) != own):
            raise ValueError("labels: a text has none to be chosen from; leave them out")
        return values

    @model_validator(mode="after")
    def labels_suit_the_kind(self) -> "TaskConfig":
        if self.sparse or self.label_file:
            self._check_sparse()
            return self
        if not self.outputs:
            raise ValueError(f"labels: list the labels of the {self.kind} task")
        if self.kind == "choice" and self.outputs != LETTERS[: len(self.outputs)]:
            raise ValueError("labels: of a choice these are letters, A, B and so on, one for each option")
        first = {label: at for at, label in reversed(list(enumerate(self.outputs)))}
        if twice := [at for at, label in enumerate(self.outputs) if first[label] < at][:MOST_TOLD]:
            raise Mistakes.of([ValueError(f"labels.{at}: {self.outputs[at]!r} is listed twice") for at in twice])
        if self.kind == "binary" and len(self.outputs) != 2:
            raise ValueError(
                f"labels: a binary task has 2 labels, the negative one first; there are {len(self.outputs)}"
            )
        if self.exclusive and len(self.outputs) < 2:
            raise ValueError(f"labels: a {self.kind} task has 2 labels or more")
        if self.parents is not None and self.exclusive:
            raise ValueError(f"tree: this is for multilabel tasks; the labels of a {self.kind} one exclude each other")
        if self.thresholds is not None and self.exclusive:
            raise ValueError(
                f"thresholds: they are for multilabel tasks; in a {self.kind} one the most probable label wins"
            )
        _ = self.predictor
        return self

    def _check_sparse(self) -> None:
        if self.label_file is None or self.outputs:
            raise ValueError("labels: of a sparse task, name the file that holds them, with one label on each line")
        if not self.sparse:
            raise ValueError("sparse: labels stand in a file of their own only where this is true")
        if self.kind not in ("multiclass", "multilabel"):
            raise ValueError(f"sparse: this is for multiclass and multilabel tasks, and this one is {self.kind}")
        if self.parents is not None:
            raise ValueError("tree: there is none over the labels of a sparse task; leave it out")
        if self.thresholds is not None and self.exclusive:
            raise ValueError("thresholds: they are for multilabel tasks; elsewhere the most probable label wins")
        try:
            _ = self.table
        except BadLabelFile as error:
            raise ValueError(f"labels: {error}") from None
        _ = self.predictor

    @property
    def table(self) -> LabelTable:
        """The labels with their places. Of a sparse task they are read from their file, once in each process."""
        return read_labels(self.label_file) if self.label_file else self._own_table

    @cached_property
    def _own_table(self) -> LabelTable:
        return LabelTable(self._labels_and_tree[0], sha256="")

    @property
    def exclusive(self) -> bool:
        """Whether exactly one label is right."""
        return self.kind != "multilabel"

    @property
    def writes(self) -> bool:
        """Whether the model's answer is a text of its own, of which its one prediction is that it is right."""
        return self.kind == "generate"

    @property
    def link(self) -> Link:
        return "softmax" if self.exclusive else "sigmoid"

    @property
    def labels(self) -> tuple[str, ...]:
        """Everything that can be predicted, told and recorded: the outputs, and behind them what else lies above."""
        return self.table.names if self.label_file else self._labels_and_tree[0]

    @property
    def tree(self) -> LabelTree | None:
        return self._labels_and_tree[1]

    @property
    def parents_sha256(self) -> str:
        """What an artifact is bound to besides the labels; empty without a tree."""
        return self.tree.sha256 if self.tree else ""

    def means_the_same_as(self, other: "TaskConfig") -> bool:
        """Whether both say the same about an input, in whatever way their models come to it."""
        if self.sparse or other.sparse:
            return (self.kind, self.sparse, self.table.sha256) == (other.kind, other.sparse, other.table.sha256)
        return (self.kind, self.labels, self.parents_sha256) == (other.kind, other.labels, other.parents_sha256)

    def at(self, base: Path) -> "TaskConfig":
        """Return the task with its file relative to this folder, for processes that run in another one."""
        if self.label_file is None:
            return self
        return self.model_copy(update={"label_file": (base / self.label_file).resolve()})

    def closed(self, truth: Mask) -> Mask:
        """Return what is known to hold, [..., L], with all that lies above it."""
        return self.tree.closed(truth) if self.tree else truth

    def with_ancestors(self, told: Iterable[str]) -> list[str]:
        """Return labels that somebody tells, which must be among `labels`, with their ancestors, in that order."""
        if self.tree is None:
            return [self.labels[at] for at in sorted({self.table.index[label] for label in told})]
        chosen = frozenset(told)
        held = self.closed(np.array([label in chosen for label in self.labels]))
        return [label for label, holds in zip(self.labels, held.tolist(), strict=True) if holds]

    def _one_limit(self) -> OneLabelLimit:
        told = self.thresholds if isinstance(self.thresholds, dict) else {self.thresholds or "fixed": {}}
        if "max_f1" in told or any("labels" in settings for settings in told.values()):
            raise ValueError("thresholds: a sparse task has one limit for all labels; write `fixed` or `risk_control`")
        return OneLabelLimit(limits=label_limits(self.thresholds, ()))

    @cached_property
    def predictor(self) -> PredictorRecipe:
        if self.exclusive:
            return MostProbable()
        if self.sparse:
            return self._one_limit()
        limits = label_limits(self.thresholds, self.labels)
        return ClosedLabelLimits(limits=limits, tree=self.tree) if self.tree else limits

    @cached_property
    def _labels_and_tree(self) -> tuple[tuple[str, ...], LabelTree | None]:
        if self.parents is None:
            return self.outputs, None
        try:
            parents = imdrf_parents(self.outputs) if self.parents == "imdrf" else self.parents
            return tree_over(self.outputs, parents)
        except InvalidInput as error:
            raise ValueError(f"tree: {error}") from None
