"""`host: {kind: sklearn}`: a fitted classifier or pipeline of scikit-learn, or of a library in its habits."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, cast

import joblib
from sklearn.pipeline import Pipeline
from threadpoolctl import ThreadpoolController

from demur.library.wrapped_estimator import of_each_label
from demur.serve.config.file import ModelConfig
from demur.serve.config.hosts.tabular import SklearnHost
from demur.serve.contract.inputs import InputSpec, ModelInput, TableRow
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.tabular.class_order import class_order
from demur.serve.hosts.tabular.columns import TableColumns, columns_of
from demur.serve.hosts.tabular.frames import reader_of
from demur.serve.hosts.tabular.kind import table_host
from demur.serve.hosts.tabular.sklearn_columns import misses_with_none, own_columns, takes_texts
from demur.serve.hosts.tabular.sklearn_file import opened
from demur.uncertainty.checks import Array
from demur.uncertainty.output import Need, Output


class SklearnModel:
    """A `SyncModel` that asks a fitted estimator."""

    def __init__(self, model: ModelConfig) -> None:
        host = cast(SklearnHost, table_host(model))
        self._name, self._task = host.file.name, model.task
        self._estimator, self._remarks = opened(host)
        self._order = class_order(self._estimator, model.task)
        self._read = ArrayReader(model.task, self._name)
        self._columns = _columns(self._estimator, host)
        self._rows = _row_reader(self._estimator, self._columns)
        self._threads = host.threads
        self._limits = ThreadpoolController()
        _leave_threads_open(self._estimator)
        for need in sorted(model.recipe.needs):
            if reason := self._lacks(need):
                raise BadModel(f"scores: {reason}")

    @property
    def spec(self) -> InputSpec:
        return self._columns.spec if self._columns else InputSpec(kind="text")

    def example(self) -> ModelInput:
        """Return a row, or a text, without meaning."""
        return self._columns.example if self._columns else "a text"

    def remarks(self) -> list[str]:
        """Return what is told when the file was written by another version of scikit-learn."""
        return self._remarks

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked about each input. Raises `BadModelOutput`."""
        for need in sorted(needs):
            if reason := self._lacks(need):
                raise BadModelOutput(reason)
        rows = self._rows(inputs)
        with ExitStack() as threads:
            threads.enter_context(self._limits.limit(limits=self._threads))
            threads.enter_context(
                joblib.parallel_config(
                    "sequential" if self._threads == 1 else "threading",
                    n_jobs=self._threads,
                )
            )
            embedding = self._embedding(rows, len(inputs)) if "embedding" in needs else None
            found = self._estimator.predict_proba(rows)
        return self._read.probabilities(
            self._by_label(found, len(inputs)), len(inputs), of="predict_proba", embedding=embedding
        )

    def _by_label(self, found: Any, rows: int) -> Array:
        """Probabilities in the order of the task's labels, from those in the order of the classes."""
        if isinstance(found, list) and not self._task.exclusive:
            try:
                found = of_each_label(found, self._estimator.classes_)
            except ValueError as error:
                raise BadModelOutput(f"{self._name}: {error}") from None
        values = self._read.numbers(found, of="predict_proba")
        if values.shape != (rows, len(self._order)):
            raise BadModelOutput(
                f"predict_proba of {self._name} gave {list(values.shape)}; it should give [{rows}, {len(self._order)}],"
                " a column for each class"
            )
        return values[:, self._order]

    def _embedding(self, rows: Any, number: int) -> Array:
        found = self._estimator[:-1].transform(rows)
        if hasattr(found, "toarray"):
            raise BadModelOutput(
                f"the features before the last step of {self._name} are sparse, and a score needs short, dense ones;"
                " add TruncatedSVD before the classifier, or leave that score out"
            )
        return self._read.embedding(found, number, of="the steps before the last one")

    def _lacks(self, need: Need) -> str:
        """Why the model cannot give a part of an output; empty where it can."""
        if need == "probabilities":
            return ""
        if need != "embedding":
            return f"one of them needs {need.replace('_', ' ')}, which {self._name} does not give; leave it out"
        if isinstance(self._estimator, Pipeline) and len(self._estimator.steps) > 1:
            return ""
        return (
            f"one of them needs an embedding, and {self._name} gives none; save a pipeline whose earlier steps make"
            " features, or leave it out"
        )


def _columns(estimator: Any, host: SklearnHost) -> TableColumns | None:
    """Return the columns of a table; None for a model of texts."""
    told = host.input
    of_texts = takes_texts(estimator)
    if told is None:
        return None if of_texts else columns_of(host, own_columns(estimator))
    if told.kind == "text":
        if not of_texts and getattr(estimator, "n_features_in_", None) is not None:
            raise BadModel(
                f"host.input: {host.file} takes {estimator.n_features_in_} columns, and no texts; leave `input` out, or"
                " write `kind: table`"
            )
        return None
    if of_texts:
        raise BadModel(f"host.input: {host.file} takes texts, and no table; write `input: text`, or leave it out")
    return columns_of(host, own_columns(estimator))


def _row_reader(estimator: Any, columns: TableColumns | None) -> Callable[[Sequence[ModelInput]], Any]:
    if columns is None:
        return lambda inputs: list(inputs)
    named = getattr(estimator, "feature_names_in_", None) is not None
    names = [list(columns.spec.columns)[at] for at in columns.order]
    read = reader_of(columns, names if named else None, misses_with_none(estimator))
    return lambda inputs: read(cast(Sequence[TableRow], inputs))


def _leave_threads_open(estimator: Any) -> None:
    """Let the host say how many threads there are, and not whoever trained the model."""
    params = getattr(estimator, "get_params", None)
    if params is None:
        return
    told = [name for name in params() if name == "n_jobs" or name.endswith("__n_jobs")]
    if told:
        estimator.set_params(**dict.fromkeys(told))
