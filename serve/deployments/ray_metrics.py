"""Brings the counts to Ray's agent on this node, from where Prometheus takes them."""

from typing import Any

from ray.util.metrics import Counter, Gauge

from demur.serve.telemetry.metrics import METRICS, MetricDefinition
from demur.serve.telemetry.telemetry import Histogram, Labels, Telemetry

LE = "le"
"""The label of a bucket, as Prometheus has it."""


class RayMetrics:
    """Everything that a `Telemetry` counts, as metrics of Ray. One thread calls `flush`, again and again.

    Histograms go as counters of their buckets, in the shape that `histogram_quantile` takes. Those of Ray itself are
    sent as counts and replayed by its agent, one call for each observation, with the middle of the bucket for a value:
    that takes its time, and the sum is a guess.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._exported: dict[tuple[str, Labels], float] = {}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        for metric in METRICS:
            if metric.kind == "gauge":
                self._gauges[metric.name] = Gauge(metric.name, metric.meaning, metric.labels)
            elif metric.kind == "counter":
                self._counters[metric.name] = Counter(metric.name, metric.meaning, metric.labels)
            else:
                for part, labels in _parts(metric).items():
                    self._counters[part] = Counter(part, metric.meaning, labels)

    def flush(self) -> None:
        """Export what has come since the last time, and how things stand."""
        for metric, counts in self._telemetry.counts.items():
            for labels, count in list(counts.items()):  # at once, since the event loop may add to it
                self._raise(metric.name, metric.labels, labels, count)
        for metric, histograms in self._telemetry.histograms.items():
            for labels, buckets in list(histograms.items()):
                self._raise_buckets(metric, labels, buckets)
        for metric, standing in self._telemetry.gauges().items():
            for labels, value in standing.items():
                self._gauges[metric.name].set(value, dict(zip(metric.labels, labels, strict=True)))

    def _raise_buckets(self, metric: MetricDefinition, labels: Labels, buckets: Histogram) -> None:
        counts, total = list(buckets.counts), buckets.sum
        bucket, summed, counted = _parts(metric)
        if sum(counts) == self._exported.get((counted, labels), 0):
            return
        below = 0
        for bound, count in zip((*(f"{bound:g}" for bound in metric.bounds), "+Inf"), counts, strict=True):
            below += count
            self._raise(bucket, (*metric.labels, LE), (*labels, bound), below)
        self._raise(summed, metric.labels, labels, total)
        self._raise(counted, metric.labels, labels, below)

    def _raise(self, name: str, keys: tuple[str, ...], labels: Labels, to: float) -> None:
        grown = to - self._exported.get((name, labels), 0)
        if grown > 0:
            self._exported[name, labels] = to
            self._counters[name].inc(grown, dict(zip(keys, labels, strict=True)))


def _parts(metric: MetricDefinition) -> dict[str, tuple[Any, ...]]:
    """The counters of a histogram, and their labels."""
    return {
        f"{metric.name}_bucket": (*metric.labels, LE),
        f"{metric.name}_sum": metric.labels,
        f"{metric.name}_count": metric.labels,
    }
