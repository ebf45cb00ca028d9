"""What the request path counts. Plain Python, a microsecond or two for each request; somebody else exports it."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from demur.serve.telemetry import metrics
from demur.serve.telemetry.metrics import MetricDefinition

if TYPE_CHECKING:
    from demur.serve.contract.commit import CommitResult, Writing
    from demur.serve.contract.decided import ArtifactShare
    from demur.serve.telemetry.traces import Traces

Labels = tuple[str, ...]
"""The values of a metric's labels, in their order."""

Queue = tuple[str, str, int, int]
"""Its name, its model, how much waits in it and how much may."""


class Histogram:
    """A histogram with one set of labels, since the start."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def add_all(self, values: Sequence[float]) -> None:
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.sum += sum(values)


class OfModel:
    """What is counted of one model, at hand for the next batch."""

    __slots__ = ("batch_size", "commit", "confidence", "host", "model", "queued")

    def __init__(self, telemetry: "Telemetry", name: str) -> None:
        self.batch_size = telemetry.buckets(metrics.MODEL_BATCH_SIZE, name)
        self.confidence = telemetry.buckets(metrics.CONFIDENCE, name)
        self.queued = telemetry.buckets(metrics.STAGE_SECONDS, name, "queued")
        self.model = telemetry.buckets(metrics.STAGE_SECONDS, name, "model")
        self.host = telemetry.buckets(metrics.STAGE_SECONDS, name, "host")
        self.commit = telemetry.buckets(metrics.STAGE_SECONDS, name, "commit")


class Telemetry:
    """The counts of one gateway, since its start. Written in its event loop alone; reading disturbs nobody.

    Model names are those of the configuration, kinds those of our errors: nothing here grows with what callers send.
    """

    def __init__(self, traces: "Traces | None" = None) -> None:
        self.traces = traces
        self.counts: dict[MetricDefinition, defaultdict[Labels, int]] = {
            metric: defaultdict(int) for metric in metrics.METRICS if metric.kind == "counter"
        }
        self.histograms: dict[MetricDefinition, dict[Labels, Histogram]] = {
            metric: {} for metric in metrics.METRICS if metric.kind == "histogram"
        }
        self.open_requests = 0
        self.database_up: bool | None = None
        """None until somebody has looked."""

        self.queues: Callable[[], list[Queue]] = list
        """Asked when the counts are read."""

        self._models: dict[str, OfModel] = {}
        self._requests = self.counts[metrics.REQUESTS]
        self._request_seconds = self.histograms[metrics.REQUEST_SECONDS]
        self._commit_seconds = self.buckets(metrics.COMMIT_SECONDS)
        self._commit_size = self.buckets(metrics.COMMIT_SIZE)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """An HTTP request is over."""
        self._requests[route, str(status)] += 1
        buckets = self._request_seconds.get((route,))
        if buckets is None:
            buckets = self.buckets(metrics.REQUEST_SECONDS, route)
        buckets.add(seconds)

    def told(self, kind: str) -> None:
        """A caller is told of an error."""
        self.counts[metrics.ERRORS][kind,] += 1

    def asked(self, model: str, waits: Sequence[float], seconds: float, shares: Sequence["ArtifactShare"]) -> None:
        """A model decided a batch. `waits` are the milliseconds for which each prediction was queued."""
        of, size = self._of(model), len(waits)
        of.batch_size.add(size)
        of.queued.add_all([wait / 1000 for wait in waits])
        of.model.add(seconds, size)
        for share in shares:
            of.host.add(share.decided.model_milliseconds / 1000, len(share.rows))

    def called(self, model: str, way: str) -> None:
        """A host has decided a call."""
        self.counts[metrics.HOST_CALLS][model, way] += 1

    def failed(self, model: str, kind: str) -> None:
        """A call to a model's host came to nothing."""
        self.counts[metrics.MODEL_FAILURES][model, kind] += 1

    def committed(
        self, writings: Sequence["Writing"], results: Sequence["CommitResult | Exception"], seconds: float
    ) -> None:
        """A transaction is over. What was on record before, or was refused, is no prediction of now."""
        self._commit_seconds.add(seconds)
        self._commit_size.add(len(writings))
        by_model: dict[str, list[Writing]] = {}
        for writing, result in zip(writings, results, strict=True):
            if not (isinstance(result, Exception) or result.replayed):
                by_model.setdefault(writing.entry.record.model, []).append(writing)
        for model, written in by_model.items():
            self._of(model).commit.add(seconds, len(written))
            self._decided(model, written)

    def _decided(self, model: str, written: "Sequence[Writing]") -> None:
        predictions, cases, known = self.counts[metrics.PREDICTIONS], 0, []
        for writing in written:
            record = writing.entry.record
            predictions[model, record.action] += 1
            cases += writing.case is not None
            if record.confidence is not None:
                known.append(record.confidence)
        self._of(model).confidence.add_all(known)
        if cases:
            self.counts[metrics.CASES][model,] += cases
        if unknown := len(written) - len(known):
            self.counts[metrics.CONFIDENCE_UNKNOWN][model,] += unknown

    def not_committed(self) -> None:
        """A transaction failed as a whole."""
        self.counts[metrics.COMMIT_FAILURES][()] += 1

    def gauges(self) -> dict[MetricDefinition, dict[Labels, float]]:
        """How things stand now."""
        queues = self.queues()
        standing: dict[MetricDefinition, dict[Labels, float]] = {
            metrics.REQUESTS_OPEN: {(): self.open_requests},
            metrics.QUEUE_LENGTH: {(name, model): waiting for name, model, waiting, _ in queues},
            metrics.QUEUE_LIMIT: {(name, model): limit for name, model, _, limit in queues},
        }
        if self.database_up is not None:
            standing[metrics.DATABASE_UP] = {(): float(self.database_up)}
        return standing

    def buckets(self, metric: MetricDefinition, *labels: str) -> Histogram:
        """The histogram with these labels."""
        found = self.histograms[metric].get(labels)
        if found is None:
            found = self.histograms[metric][labels] = Histogram(metric.bounds)
        return found

    def _of(self, model: str) -> OfModel:
        found = self._models.get(model)
        if found is None:
            found = self._models[model] = OfModel(self, model)
        return found
