"""What a graph gives: which of its outputs has the probabilities or logits, and how those are read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from demur.library.nearest import one_of
from demur.serve.config.hosts.onnx import OnnxHost
from demur.serve.config.task import TaskConfig
from demur.serve.hosts.arrays import ArrayReader
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.onnx.graph import GraphValue, listed
from demur.uncertainty.checks import Array
from demur.uncertainty.generation import as_column
from demur.uncertainty.output import Output

Gives = Literal["probabilities", "logits", "positive_probability", "positive_logit"]

NEARLY = 1e-6
"""Probabilities that differ by less are as large as each other."""

CALLED_LABELS = ("label", "class")
"""An output of whole numbers or texts with such a name is the graph's own prediction."""


class GraphReader:
    """Reads the outputs of one graph for the labels of a task. Raises `BadModel` where it is not clear how."""

    def __init__(self, host: OnnxHost, task: TaskConfig, graph: onnx.ModelProto, outputs: Sequence[GraphValue]) -> None:
        self._task = task
        self._output = _chosen(host, task, outputs)
        self._gives = host.gives or _given(self._output, graph, task)
        self._embedding = _embedding(host, outputs)
        self._own = _own_prediction(task, outputs)
        self._arrays = ArrayReader(task, "the graph")
        self._labels = GraphLabels(task)
        _check_width(self._output, self._gives, task)

    def names(self, *, embedding: bool) -> list[str]:
        """Return the names of the outputs that are to be asked for."""
        wanted = [self._output, self._own, self._embedding if embedding else None]
        return [one.name for one in wanted if one is not None]

    @property
    def has_embedding(self) -> bool:
        return self._embedding is not None

    @property
    def has_logits(self) -> bool:
        return "logit" in self._gives

    def read(self, found: Mapping[str, Any], rows: int, *, embedding: bool) -> Output:
        """Return the output of a batch. A row in which the graph's own prediction is not its most probable label cannot
        be read: either its columns are in another order than the labels of the task, or it contradicts itself."""
        vectors = None
        if embedding and self._embedding is not None:
            name = self._embedding.name
            vectors = self._arrays.embedding(found[name], rows, of=f"output {name!r}")
        values = self._values(found[self._output.name], rows)
        of = f"output {self._output.name!r}"
        read = self._arrays.logits if "logit" in self._gives else self._arrays.probabilities
        output = read(values, rows, of=of, embedding=vectors)
        return output if self._own is None else self._agreed(output, found[self._own.name])

    def _values(self, found: Any, rows: int) -> Any:
        if self._output.is_map:
            return self._labels.table(found, rows)
        array = self._arrays.numbers(found, of=f"output {self._output.name!r}")
        if self._gives.startswith("positive"):
            if array.shape not in ((rows,), (rows, 1)):
                raise BadModelOutput(
                    f"output {self._output.name!r} of the graph gave {list(array.shape)}; with `gives: {self._gives}`"
                    f" it should give [{rows}, 1]"
                )
        elif array.ndim != 2 or array.shape[1] == 1 < len(self._task.outputs):
            raise BadModelOutput(
                f"output {self._output.name!r} of the graph gave {list(array.shape)}; it should give"
                f" [{rows}, {len(self._task.outputs)}], a column for each label"
            )
        return array

    def _agreed(self, output: Output, own: Any) -> Output:
        assert self._own is not None
        named = np.asarray(own).reshape(-1)
        if len(named) != len(output):
            raise BadModelOutput(
                f"output {self._own.name!r} of the graph gave {len(named)} labels for {len(output)} rows"
            )
        whys = self._labels.contradictions(named, output.probabilities)
        return replace(output, unreadable=as_column(whys)) if any(whys) else output


class GraphLabels:
    """The labels of a task as a graph calls them."""

    def __init__(self, task: TaskConfig) -> None:
        self._labels = task.outputs
        self._index = {label: at for at, label in enumerate(task.outputs)}
        self._index |= {old: self._index[new] for old, new in task.rename.items() if new in self._index}
        self._by_place = not any(_is_whole(label) for label in self._index)

    def at(self, called: Any) -> int | None:
        """Return the place of a label that the graph names: its name as a text, or, where the labels of the task are no
        whole numbers, its place among them. None for one that is not there."""
        if (named := self._index.get(str(called))) is not None:
            return named
        if self._by_place and isinstance(called, int | np.integer) and 0 <= int(called) < len(self._labels):
            return int(called)
        return None

    def table(self, maps: Any, rows: int) -> Array:
        """Return [rows, labels] of a mapping from label to number for each row. Raises `BadModelOutput`."""
        if len(maps) != rows:
            raise BadModelOutput(f"the graph gave {len(maps)} mappings of labels for {rows} inputs")
        places: dict[Any, int] = {}
        for called in maps[0]:
            if (at := self.at(called)) is None:
                raise BadModelOutput(f"task.labels: {self._strange(maps[0])}")
            places[called] = at
        if sorted(places.values()) != list(range(len(self._labels))):
            raise BadModelOutput(f"task.labels: {self._strange(maps[0])}")
        table = np.full((rows, len(self._labels)), np.nan)
        for row, told in enumerate(maps):
            for called, number in told.items():
                table[row, places[called]] = number
        return table

    def contradictions(self, named: NDArray[Any], probabilities: Array) -> list[str | None]:
        """Return for each row why the label that the graph names is not its most probable one; None where it is."""
        with np.errstate(invalid="ignore"):
            largest = probabilities.max(axis=1)
        whys: list[str | None] = []
        for row, called in enumerate(named.tolist()):
            at = self.at(called)
            if at is None:
                whys.append(f"the graph predicts {called!r}, which is not among task.labels")
            elif probabilities[row, at] < largest[row] - NEARLY:  # never for NaN, which is held for what it is
                first = self._labels[int(probabilities[row].argmax())]
                whys.append(
                    f"the graph predicts {called!r}, and its largest number stands where task.labels has {first!r};"
                    " task.labels may be in another order than the graph's"
                )
            else:
                whys.append(None)
        return whys

    def _strange(self, told: Mapping[Any, Any]) -> str:
        own = ", ".join(map(repr, list(told)[:10])) + (" ..." if len(told) > 10 else "")
        return (
            f"the graph gives numbers for {own}, and the task has {', '.join(map(repr, self._labels[:10]))}; write the"
            " graph's labels, or name them with task.rename"
        )


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdigit()


def _chosen(host: OnnxHost, task: TaskConfig, outputs: Sequence[GraphValue]) -> GraphValue:
    """Return the output that has the probabilities or the logits."""
    if host.output is not None:
        named = _named("output", host.output, outputs)
        if not (named.is_map or named.is_float):
            raise BadModel(
                f"host.output: {named.words} has no probabilities or logits; the graph gives {listed(outputs)}"
            )
        return named
    positive = bool(host.gives and host.gives.startswith("positive"))
    widths: tuple[Any, ...] = (1, None) if positive else (len(task.outputs), None)
    suited = [
        one
        for one in outputs
        if one.name != host.embedding
        and (one.is_map or (one.is_float and (one.shape[1:] == () if len(one.shape) == 1 else _width(one) in widths)))
        and (positive or len(one.shape) != 1)
    ]
    if len(suited) > 1:
        suited = [one for one in suited if one.is_map or "prob" in one.name.lower()] or suited
    if len(suited) == 1:
        return suited[0]
    if suited:
        raise BadModel(
            f"host.output: more than one output may have the probabilities: {listed(suited)}; name one, as in"
            f" `output: {suited[0].name}`"
        )
    raise BadModel(f"{_why_none(host, task, outputs)}; the graph gives {listed(outputs)}")


def _why_none(host: OnnxHost, task: TaskConfig, outputs: Sequence[GraphValue]) -> str:
    if task.kind == "binary" and any(one.is_float and _width(one) == 1 for one in outputs):
        return (
            "host.gives: an output with one column does not say which label it is for; write `gives:"
            f" positive_probability` or `gives: positive_logit` if it is {task.outputs[1]!r}"
        )
    if host.gives and host.gives.startswith("positive"):
        return f"host.gives: {host.gives} is read of an output with one column, and there is none"
    wide = [one for one in outputs if one.is_float and len(one.shape) == 2 and one.name != host.embedding]
    if len(wide) == 1:
        return f"task.labels: {len(task.outputs)} are named, and the graph gives {_width(wide[0])} numbers for each row"
    return (
        f"host.output: no output has {len(task.outputs)} numbers for each row, one for each label; export the model"
        " with its probabilities"
    )


def _width(value: GraphValue) -> int | None:
    return value.shape[1] if len(value.shape) == 2 else -1


def _given(output: GraphValue, graph: onnx.ModelProto, task: TaskConfig) -> Gives:
    """Return what an output has, as its name, its type or the operator that makes it shows."""
    name = output.name.lower()
    if output.is_map or "prob" in name:
        return "probabilities"
    if "logit" in name:
        return "logits"
    maker = next((node.op_type for node in graph.graph.node if output.name in node.output), "")
    if maker == ("Softmax" if task.exclusive else "Sigmoid"):
        return "probabilities"
    if maker == "LogSoftmax" and task.exclusive:
        return "logits"
    raise BadModel(
        f"host.gives: nothing shows whether {output.name!r} has probabilities or logits; write `gives: probabilities`"
        " or `gives: logits`"
    )


def _check_width(output: GraphValue, gives: Gives, task: TaskConfig) -> None:
    if gives.startswith("positive"):
        if task.kind != "binary":
            raise BadModel(f"host.gives: {gives} is for binary tasks, and this one is {task.kind}")
        if output.is_map:
            raise BadModel(
                f"host.gives: {output.name!r} has a number for each label; write `probabilities` or `logits`"
            )
        return
    if output.is_map or not output.shape:
        return
    if len(output.shape) != 2:
        raise BadModel(
            f"host.output: {output.words} is no matrix with a row for each input and a column for each label; name"
            " another output, or host the model through a class of your own (`host.kind: python`)"
        )
    if output.shape[1] not in (len(task.outputs), None):
        one_column = "; write `gives: positive_probability` or `positive_logit`" if output.shape[1] == 1 else ""
        raise BadModel(
            f"task.labels: {len(task.outputs)} are named, and {output.name!r} of the graph has {output.shape[1]}"
            f" columns{one_column}"
        )


def _embedding(host: OnnxHost, outputs: Sequence[GraphValue]) -> GraphValue | None:
    if host.embedding is None:
        return None
    found = _named("embedding", host.embedding, outputs)
    if not found.is_float or len(found.shape) not in (0, 2):
        raise BadModel(f"host.embedding: {found.words} is no matrix of numbers with a row for each input")
    return found


def _own_prediction(task: TaskConfig, outputs: Sequence[GraphValue]) -> GraphValue | None:
    """Return the output in which the graph names the label that it predicts, where there is one."""
    if not task.exclusive:
        return None
    found = [
        one
        for one in outputs
        if one.type in ("tensor(int64)", "tensor(int32)", "tensor(string)")
        and (len(one.shape) == 1 or one.shape[1:] == (1,))
        and any(word in one.name.lower() for word in CALLED_LABELS)
    ]
    return found[0] if len(found) == 1 else None


def _named(key: str, name: str, outputs: Sequence[GraphValue]) -> GraphValue:
    found = {one.name: one for one in outputs}
    if name not in found:
        raise BadModel(f"host.{key}: {one_of(name, list(found))}")
    return found[name]
