"""A graph of ONNX as a model: inputs fill its tensors, and its outputs are read for the labels of a task."""

from collections.abc import Sequence
from dataclasses import replace

from demur.serve.config.hosts.onnx import OnnxHost
from demur.serve.config.task import TaskConfig
from demur.serve.contract.inputs import InputSpec, ModelInput, example_of
from demur.serve.hosts.kind import BadModel, BadModelOutput
from demur.serve.hosts.onnx.feeds import feeder_of
from demur.serve.hosts.onnx.files import files_of, read_graph
from demur.serve.hosts.onnx.graph import Graph
from demur.serve.hosts.onnx.outputs import GraphReader
from demur.uncertainty.generation import as_column
from demur.uncertainty.output import Need, Output


class OnnxModel:
    """A `SyncModel` of one graph. It is tried once with an example when it is made. Raises `BadModel`."""

    def __init__(self, host: OnnxHost, task: TaskConfig, *, device: str | None = None) -> None:
        """`device` is another one than is configured: what can be told on any machine is then told on this one."""
        files_of(host.file)
        self._graph = Graph(host.file, device=device or host.device, threads=host.threads)
        self._feeder = feeder_of(host, self._graph.inputs)
        self._reader = GraphReader(host, task, read_graph(host.file), self._graph.outputs)
        self._try()

    @property
    def spec(self) -> InputSpec:
        return self._feeder.spec

    def example(self) -> ModelInput:
        """Return an input without meaning."""
        return example_of(self.spec)

    def remarks(self) -> list[str]:
        """Return nothing: there is nothing to remark."""
        return []

    def run(self, inputs: Sequence[ModelInput], needs: frozenset[Need]) -> Output:
        """Return what was asked about each input. Raises `BadModelOutput`."""
        embedding = "embedding" in needs
        if embedding and not self._reader.has_embedding:
            raise BadModelOutput(
                "a score needs the embedding, and no output of the graph is named for it; write its name as"
                " host.embedding, or leave that score out"
            )
        if "logits" in needs and not self._reader.has_logits:
            raise BadModelOutput("a score needs logits, and the graph gives probabilities; leave that score out")
        if lacking := sorted(needs - {"probabilities", "embedding", "logits"}):
            raise BadModelOutput(
                f"a score needs the {', '.join(lacking).replace('_', ' ')}, which a graph of ONNX does not give; leave"
                " that score out"
            )
        batch = self._feeder.fill(inputs)
        names = self._reader.names(embedding=embedding)
        found = dict(zip(names, self._graph.run(batch.feeds, len(inputs), names), strict=True))
        output = self._reader.read(found, len(inputs), embedding=embedding)
        if not batch.unfit:
            return output
        known = output.why_unusable()
        return replace(output, unreadable=as_column([batch.unfit.get(row, why) for row, why in enumerate(known)]))

    def _try(self) -> None:
        """Raise `BadModel` where the graph does not run on an example, or its labels are not those of the task."""
        needs: frozenset[Need] = frozenset({"probabilities"})
        if self._reader.has_embedding:
            needs |= {"embedding"}
        try:
            output = self.run([self.example()] * 2, needs)
        except BadModelOutput as error:
            said = str(error)
            raise BadModel(said if said.startswith("task.") else f"host.file: on an example, {said}") from None
        why = next((why for why in output.why_unusable() if why), None)
        if why is not None:
            raise BadModel(f"task.labels: on an example, {why}")
