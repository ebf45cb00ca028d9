"""What models of XGBoost and LightGBM have in common: trees in a file, which give one probability for each class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from demur.serve.config.file import ModelConfig
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput, TableRow
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.tabular.columns import OwnColumns, columns_of
from demur.serve.hosts.tabular.kind import table_host
from demur.serve.hosts.tabular.matrix import Codes, RowMatrix
from demur.uncertainty.checks import Array
from demur.uncertainty.output import Need, Output

PROBES = (0.0, 1.0, 1000.0, -1e30, 1e30, float("nan"))
"""Values of whole rows that are predicted, so that all trees are walked before anybody asks."""


def probes(columns: int) -> Array:
    """Return a row [6, columns] of each value."""
    return np.tile(np.array(PROBES)[:, None], (1, columns))


def unreadable(library: str, file: Path, error: Exception, way_out: str) -> BadModel:
    """Return the error of a file that a library does not read."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return BadModel(
        f"host.file: {library} cannot read {file} ({lines[0][:200] if lines else type(error).__name__}); {way_out}"
    )


@dataclass(frozen=True, kw_only=True)
class Booster:
    """What a file holds."""

    columns: OwnColumns
    codes: Mapping[int, Codes]
    """Of each column of categories, by its place."""

    classes: int
    """How many classes or labels it tells."""

    exclusive: bool
    """Whether exactly one class is right for each row."""

    predict: Callable[[Array], object]
    """From rows [n, d] to probabilities [n, classes]."""


class BoosterModel:
    """A `SyncModel` that asks trees."""

    def __init__(self, model: ModelConfig, booster: Booster) -> None:
        host = table_host(model)
        self._name, self._booster = host.file.name, booster
        _check_task(model.task, booster)
        self._read = ArrayReader(model.task, self._name)
        self._columns = columns_of(host, booster.columns)
        self._rows = RowMatrix(self._columns, booster.codes)
        if lacking := _lacking(model.recipe.needs):
            raise BadModel(f"scores: {lacking}, which {self._name} does not give; leave it out")

    @property
    def spec(self) -> InputSpec:
        return self._columns.spec

    def example(self) -> ModelInput:
        """Return a row without meaning."""
        return self._columns.example

    def remarks(self) -> list[str]:
        """Return nothing: files of these libraries are read alike by all later versions."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return the probabilities of each input. Raises `BadModelOutput`."""
        if lacking := _lacking(needs):
            raise BadModelOutput(f"{lacking}, which {self._name} does not give; leave it out")
        found = self._booster.predict(self._rows.of(cast(Sequence[TableRow], inputs)))
        return self._read.probabilities(found, len(inputs), of="the trees")


def _lacking(needs: frozenset[Need]) -> str:
    more = sorted(needs - {"probabilities"})
    return f"a score needs the {more[0].replace('_', ' ')}" if more else ""


def _check_task(task: TaskConfig, booster: Booster) -> None:
    if task.exclusive != booster.exclusive:
        of = "one class of each row" if booster.exclusive else "several labels of each row"
        kind = "multiclass" if booster.exclusive else "multilabel"
        raise BadModel(f"task.kind: the model was trained to tell {of}, and the task is {task.kind}; write {kind}")
    if task.rename:
        raise BadModel(
            "task.rename: the file knows its classes by their numbers only; leave it out, and list `labels` in that"
            " order"
        )
    if len(task.outputs) != booster.classes:
        raise BadModel(
            f"task.labels: the model tells {booster.classes} classes, and {len(task.outputs)} are listed; list one for"
            " each class, in the order of the numbers on which the model was trained, 0 first"
        )
