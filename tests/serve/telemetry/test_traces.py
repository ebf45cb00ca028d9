"""Traces as a real collector gets them: the spans of one request, and what is linked to what."""

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient
from uuid_utils.compat import uuid7

from demur.serve.config.telemetry import TelemetryConfig, TracesConfig
from demur.serve.gateway.handler import Handler
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.telemetry.stages import TRACEPARENT
from demur.serve.telemetry.telemetry import Telemetry
from demur.serve.telemetry.traces import Traces
from demur.serve.web.native.app import gateway_app
from tests.conftest import ROOT
from tests.serve.conftest import DRAW_KEY, LocalHost
from tests.serve.telemetry.collector import Collector

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ONE = {"queue": {}, "model digits": {"batch digits": {"host digits": {"forward": {}, "scores": {}}}}, "commit": {}}


class TracedHost(LocalHost):
    """A host in this process that is told of a trace as one behind Ray is."""

    def __init__(self, host, traces):
        super().__init__(host)
        self.traces = traces
        self.may_go = threading.Event()
        self.may_go.set()

    async def decide(self, inputs, groups, draws):
        self.batches.append(len(inputs))
        traceparent = TRACEPARENT.get()

        async def work():
            await asyncio.to_thread(self.may_go.wait)
            with self.traces.at_host("digits", traceparent) if traceparent else nullcontext():
                return await self.host.host.decide(inputs, groups, draws)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.host.loop))


@pytest.fixture
def collector():
    with Collector() as opened:
        yield opened


@pytest.fixture
def traced(quickstart, digits_host, database, collector, request):
    """The gateway with traces; closing it sends them."""
    config = TracesConfig(endpoint=collector.endpoint, share=getattr(request, "param", 1.0))
    host = TracedHost(digits_host, Traces(config, part="host digits"))
    telemetry = Telemetry(Traces(config, part="gateway"))
    handler = Handler(
        quickstart, {"digits": host}, database,
        clock=lambda: datetime.now(UTC), new_id=uuid7, draw_key=DRAW_KEY, telemetry=telemetry,
    )  # fmt: skip
    client = TestClient(RequestMiddleware(gateway_app(handler, max_body_bytes=10**6), telemetry))
    with client:
        yield client, host, handler
    host.traces.close()


def test_one_request_of_a_traced_caller(traced, collector, clear_digit):
    client, host, _ = traced
    told = {"traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-Id": "order-7"}
    client.post("/v1/predict", json={"model": "digits", "input": clear_digit}, headers=told)
    client.__exit__()  # which sends what there is
    host.traces.close()
    assert collector.tree(CALLER) == {"POST /v1/predict": ONE}
    assert {span.trace for span in collector.spans} == {TRACE}
    spans = {span.name: span for span in collector.spans}
    request = spans["POST /v1/predict"]
    assert request.attributes["demur.request_id"] == "order-7"
    assert request.attributes["http.response.status_code"] == 200
    assert spans["batch digits"].links == (request.id,)
    assert spans["model digits"].links == (spans["batch digits"].id,)
    assert spans["commit"].attributes["db.system.name"] == "postgresql"
    assert {span.part for span in collector.spans} == {"gateway", "host digits"}
    for span in collector.spans:
        assert request.start <= span.start <= span.end <= request.end, span.name
    assert spans["queue"].end <= spans["model digits"].end <= spans["commit"].end


def test_requests_that_share_a_batch_are_linked_to_it(traced, collector, clear_digit):
    client, host, handler = traced
    host.may_go.clear()
    with ThreadPoolExecutor(6) as pool:
        body = {"model": "digits", "input": clear_digit}
        asked = [pool.submit(client.post, "/v1/predict", json=body) for _ in range(6)]
        while sum(host.batches) + handler.queues()[0][2] < 6:  # two batches are away, and the rest waits
            time.sleep(0.01)
        host.may_go.set()
        assert {one.result().status_code for one in asked} == {200}
    client.__exit__()
    host.traces.close()
    requests = {span.id for span in collector.spans if span.name == "POST /v1/predict"}
    batches = [span for span in collector.spans if span.name == "batch digits"]
    assert len(requests) == 6
    assert sorted(link for batch in batches for link in batch.links) == sorted(requests)
    shared = max(batches, key=lambda batch: len(batch.links))
    assert len(shared.links) > 1
    assert shared.parent == ""  # it is nobody's alone
    assert collector.tree(shared.id) == {"host digits": {"forward": {}, "scores": {}}}
    assert sum(shared.id in span.links for span in collector.spans if span.name == "model digits") == len(shared.links)


@pytest.mark.parametrize("traced", [0.0], indirect=True)
def test_of_those_who_say_nothing_a_share_is_traced(traced, collector, clear_digit):
    client, host, _ = traced
    body = {"model": "digits", "input": clear_digit}
    for headers in ({}, {"traceparent": f"00-{TRACE}-{CALLER}-00"}, {"traceparent": "nonsense"}):
        assert client.post("/v1/predict", json=body, headers=headers).status_code == 200
    client.__exit__()
    host.traces.close()
    assert collector.spans == []


@pytest.mark.slow
def test_nothing_is_imported_that_makes_or_sends_spans_where_it_is_off():
    code = (
        "import sys, demur.serve.web.native.routes, demur.serve.telemetry.request_middleware, demur.serve.config.file;"
        "sys.exit(any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_it_is_off_unless_an_address_is_given():
    assert TelemetryConfig().traces is None
    with pytest.raises(ValidationError, match="endpoint"):
        TelemetryConfig(traces={"endpoint": "localhost:4318"})
