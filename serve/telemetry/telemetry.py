"""What the request path counts. Plain Python, a microsecond or two for each request; somebody else exports it."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import compress
from typing import TYPE_CHECKING

from demur.serve.telemetry import metrics
from demur.serve.telemetry.metrics import MetricDefinition
from demur.traffic.columns import RecordColumns

if TYPE_CHECKING:
    from demur.serve.contract.commit import CommitOutcome, ToWrite
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
        self, items: Sequence["ToWrite"], results: Sequence[Sequence["CommitOutcome"]], seconds: float
    ) -> None:
        """A transaction is over. What was on record before, or was refused, is no prediction of now."""
        self._commit_seconds.add(seconds)
        self._commit_size.add(sum(map(len, results)))
        by_model: dict[str, tuple[list[str], list[float | None], list[bool]]] = defaultdict(lambda: ([], [], []))
        for item, outcomes in zip(items, results, strict=True):
            new = [not (isinstance(one, Exception) or one.replayed) for one in outcomes]
            if isinstance(item, RecordColumns):
                actions, confidences, _ = by_model[item.model]
                actions += compress(item.actions, new)
                confidences += compress(item.confidence, new)
            elif new[0]:
                record = item.entry.record
                actions, confidences, cases = by_model[record.model]
                actions.append(record.action)
                confidences.append(record.confidence)
                cases.append(item.case is not None)
        for model, (actions, confidences, cases) in by_model.items():
            if actions:
                self._of(model).commit.add(seconds, len(actions))
                self._decided(model, actions, confidences, sum(cases))

    def _decided(self, model: str, actions: Sequence[str], confidences: Sequence[float | None], cases: int) -> None:
        predictions = self.counts[metrics.PREDICTIONS]
        for action, n in Counter(actions).items():
            predictions[model, action] += n
        known = [confidence for confidence in confidences if confidence is not None]
        self._of(model).confidence.add_all(known)
        if cases:
            self.counts[metrics.CASES][model,] += cases
        if unknown := len(actions) - len(known):
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
