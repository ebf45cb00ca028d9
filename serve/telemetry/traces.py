"""Traces of OpenTelemetry. Nobody imports this file, which brings its SDK, unless traces are switched on.

A request is one trace: the request, its wait in the gateway, its time away at the model, its commit. A batch serves
many requests, and a span has one parent. So a batch that several share is a trace of its own with a link to each of
them, and each of them has a link to it, as the conventions for messages have it. A batch of one is a part of its trace.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from demur.serve.config.telemetry import TracesConfig
from demur.serve.telemetry.request_context import RequestContext
from demur.serve.telemetry.stages import STAGES, TRACEPARENT

Result = TypeVar("Result")

W3C = TraceContextTextMapPropagator()
HEADERS = (b"traceparent", b"tracestate")
DATABASE_STAGE = "commit"


class ShareSampler(Sampler):
    """So many of the requests that nobody has decided about; and every batch that such a request is linked to."""

    def __init__(self, share: float) -> None:
        self._requests = TraceIdRatioBased(share)
        self._batches = TraceIdRatioBased(1.0)

    def should_sample(  # its arguments are those of the class above
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Sequence[Link] | None = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        sampler = self._batches if links else self._requests
        return sampler.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    def get_description(self) -> str:
        return f"demur: {self._requests.get_description()}"


class Traces:
    """Spans of this process, on their way to a collector in a thread of their own."""

    def __init__(self, config: TracesConfig, *, part: str) -> None:
        """`part` says which process this is: `gateway`, or the host of a model."""
        resource = Resource.create({"service.name": "demur", "demur.part": part})
        self._provider = TracerProvider(resource=resource, sampler=ParentBased(ShareSampler(config.share)))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=config.endpoint)))
        self._tracer = self._provider.get_tracer("demur")

    def begin(self, visit: RequestContext, method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """A request has come, perhaps as a part of its caller's trace."""
        told = {key.decode(): value.decode("latin-1") for key, value in headers if key in HEADERS}
        span = self._tracer.start_span(
            method,
            context=W3C.extract(told) if told else Context(),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "demur.request_id": visit.request_id},
        )
        visit.trace_id = format(span.get_span_context().trace_id, "032x")
        if span.is_recording():
            visit.span = span
            STAGES.set(partial(self._within, trace.set_span_in_context(span, Context())))

    def end(self, visit: RequestContext, method: str, route: str, status: int) -> None:
        """It is answered."""
        span: Span | None = visit.span
        if span is not None:
            span.update_name(f"{method} {route}")
            span.set_attributes({"http.route": route, "http.response.status_code": status})
            if status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            span.end()

    @contextmanager
    def batch(self, model: str, asked: Sequence[Any]) -> Iterator[None]:
        """What is done for a batch, each of which is an `Asked`. The model's host is told of it."""
        left, now = time.perf_counter(), time.time_ns()
        since = {id(one.visit): (one.visit, one.at) for one in asked if one.visit and one.visit.span is not None}
        if not since:
            yield
            return
        visits = [visit for visit, _ in since.values()]
        for visit, at in since.values():
            queue = self._tracer.start_span(
                "queue", context=_under(visit.span), start_time=now - int((left - at) * 1e9)
            )
            queue.end(now)
        alone = len({id(one.visit) for one in asked}) == 1
        away = [
            self._tracer.start_span(f"model {model}", context=_under(visit.span), kind=SpanKind.CLIENT, start_time=now)
            for visit in visits
        ]
        span = self._tracer.start_span(
            f"batch {model}",
            context=_under(away[0]) if alone else Context(),
            links=[Link(visit.span.get_span_context()) for visit in visits],
            attributes={"demur.model": model, "demur.batch.size": len(asked)},
        )
        for one in away:
            one.add_link(span.get_span_context())
        carrier: dict[str, str] = {}
        W3C.inject(carrier, _under(span))
        TRACEPARENT.set(carrier.get("traceparent"))  # in the context of this batch's task
        try:
            yield
        finally:
            span.end()
            for one in away:
                one.end()

    @contextmanager
    def at_host(self, model: str, traceparent: str) -> Iterator[None]:
        """What a host does for a batch of which it is told."""
        above = W3C.extract({"traceparent": traceparent})
        with self._tracer.start_as_current_span(f"host {model}", context=above, kind=SpanKind.SERVER) as span:
            token = STAGES.set(partial(self._within, _under(span)))
            try:
                yield
            finally:
                STAGES.reset(token)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()

    def _within(self, above: Context, name: str) -> AbstractContextManager[object]:
        attributes = {"db.system.name": "postgresql"} if name == DATABASE_STAGE else None
        kind = SpanKind.CLIENT if name == DATABASE_STAGE else SpanKind.INTERNAL
        return self._tracer.start_as_current_span(name, context=above, kind=kind, attributes=attributes)


def _under(span: Span) -> Context:
    return trace.set_span_in_context(span, Context())
