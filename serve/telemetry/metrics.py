"""Every metric of the request path: its name, its kind, what it means. docs/telemetry.md has the same table."""

from dataclasses import dataclass
from typing import Literal

SECONDS = (
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
)  # fmt: skip
"""A classifier answers in milliseconds, a language model in seconds."""

SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999, 1.0)
"""Close together at the upper end, where limits lie."""


@dataclass(frozen=True, eq=False)  # there is one of each, and its hash shall cost nothing
class MetricDefinition:
    """One metric. A label takes few values, none of which a caller can choose."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Of a histogram: the upper ends of its buckets."""

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which Prometheus finds it, as Ray exports it."""
        if self.kind == "gauge":
            return (f"ray_{self.name}",)
        if self.kind == "counter":
            return (f"ray_{self.name}_total",)
        return tuple(f"ray_{self.name}_{part}_total" for part in ("bucket", "sum", "count"))


REQUESTS = MetricDefinition("demur_requests", "counter", "HTTP requests that were answered.", ("route", "status"))
REQUEST_SECONDS = MetricDefinition(
    "demur_request_seconds",
    "histogram",
    "Time of an HTTP request in the gateway, from its headers to the end of its answer.",
    ("route",),
    SECONDS,
)
REQUESTS_OPEN = MetricDefinition("demur_requests_open", "gauge", "HTTP requests that are being answered.")
ERRORS = MetricDefinition(
    "demur_errors", "counter", "Errors told to callers, those of single items of a batch included.", ("kind",)
)
STAGE_SECONDS = MetricDefinition(
    "demur_stage_seconds",
    "histogram",
    "Time of a prediction in a stage: `queued` at the gateway for the model, `model` away at its host and back, `host`"
    " the part of that in the model and its scores, `commit` in the transaction that puts it on record.",
    ("model", "stage"),
    SECONDS,
)
MODEL_BATCH_SIZE = MetricDefinition(
    "demur_model_batch_size", "histogram", "Predictions in one call to a model's host.", ("model",), SIZES
)
MODEL_FAILURES = MetricDefinition(
    "demur_model_failures",
    "counter",
    "Calls to a model's host that came to nothing: `timeout`, `failed`, `overloaded`, `no_artifact`; and predictions"
    " about which its endpoint could not be asked: `outage`.",
    ("model", "kind"),
)
HOST_CALLS = MetricDefinition(
    "demur_host_calls",
    "counter",
    "Calls that a model's host has decided, by the way they went: `socket` on one machine, or Ray's `handle`.",
    ("model", "way"),
)
COMMIT_SECONDS = MetricDefinition(
    "demur_commit_seconds", "histogram", "Time of a transaction that puts a group of records on disk.", (), SECONDS
)
COMMIT_SIZE = MetricDefinition("demur_commit_size", "histogram", "Records in one such transaction.", (), SIZES)
COMMIT_FAILURES = MetricDefinition("demur_commit_failures", "counter", "Such transactions that failed as a whole.")
PREDICTIONS = MetricDefinition(
    "demur_predictions", "counter", "Predictions on record, by what was decided.", ("model", "action")
)
CASES = MetricDefinition(
    "demur_cases_opened", "counter", "Cases for people: what was held, and what was drawn.", ("model",)
)
CONFIDENCE = MetricDefinition(
    "demur_confidence", "histogram", "Calibrated confidence of predictions.", ("model",), CONFIDENCES
)
CONFIDENCE_UNKNOWN = MetricDefinition(
    "demur_confidence_unknown", "counter", "Predictions without a confidence.", ("model",)
)
QUEUE_LENGTH = MetricDefinition(
    "demur_queue_length",
    "gauge",
    "What waits in the gateway: for a model, for it as a later step of a cascade (`later`), open streams (`streams`),"
    " or for the database (`commits`, `keys`: look-ups of Idempotency-Keys; of no model).",
    ("queue", "model"),
)
QUEUE_LIMIT = MetricDefinition(
    "demur_queue_limit", "gauge", "How much may; above it, callers get a 503.", ("queue", "model")
)
DATABASE_UP = MetricDefinition("demur_database_up", "gauge", "Whether the gateway reaches the database: 1 or 0.")

METRICS = (
    REQUESTS, REQUEST_SECONDS, REQUESTS_OPEN, ERRORS, STAGE_SECONDS, MODEL_BATCH_SIZE, MODEL_FAILURES, HOST_CALLS,
    COMMIT_SECONDS, COMMIT_SIZE, COMMIT_FAILURES, PREDICTIONS, CASES, CONFIDENCE, CONFIDENCE_UNKNOWN, QUEUE_LENGTH,
    QUEUE_LIMIT, DATABASE_UP,
)  # fmt: skip
