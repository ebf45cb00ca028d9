"""What the gateway counts of real requests: a real model, a real database, real HTTP, no Ray."""

import asyncio

import pytest
from starlette.testclient import TestClient

from demur.serve.telemetry import metrics
from demur.serve.telemetry.request_middleware import RequestMiddleware
from demur.serve.telemetry.telemetry import Histogram, Telemetry
from demur.serve.web.native.app import gateway_app
from demur.traffic.database import Database
from tests.serve.conftest import make_handler


@pytest.fixture
def counted(handler, quickstart):
    """The gateway behind its reception, and what it counts."""
    app = gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes)
    with TestClient(RequestMiddleware(app, handler.telemetry), raise_server_exceptions=False) as client:
        yield client, handler.telemetry


def test_what_requests_came_to(counted, clear_digit, doubtful_digit):
    client, telemetry = counted
    for value in (clear_digit, clear_digit, doubtful_digit):
        assert client.post("/v1/predict", json={"model": "digits", "input": value}).status_code == 200
    assert telemetry.counts[metrics.PREDICTIONS] == {("digits", "answer"): 2, ("digits", "review"): 1}
    assert telemetry.counts[metrics.CASES] == {("digits",): 1}
    assert telemetry.counts[metrics.REQUESTS] == {("/v1/predict", "200"): 3}
    stages = telemetry.histograms[metrics.STAGE_SECONDS]
    assert {labels: sum(buckets.counts) for labels, buckets in stages.items()} == {
        ("digits", stage): 3 for stage in ("queued", "model", "host", "commit")
    }
    assert 0 < stages["digits", "host"].sum <= stages["digits", "model"].sum
    total = telemetry.histograms[metrics.REQUEST_SECONDS]["/v1/predict",]
    assert total.sum >= sum(stages["digits", stage].sum for stage in ("queued", "model", "commit"))
    assert sum(telemetry.histograms[metrics.CONFIDENCE]["digits",].counts) == 3
    assert telemetry.histograms[metrics.COMMIT_SIZE][()].sum == 3
    assert telemetry.histograms[metrics.MODEL_BATCH_SIZE]["digits",].sum == 3
    assert telemetry.open_requests == 0


def test_a_batch_is_one_request_and_many_predictions(counted, clear_digit):
    client, telemetry = counted
    items = [{"model": "digits", "input": clear_digit}] * 9 + [{"model": "digits", "input": []}]
    client.post("/v1/predict/batch", json={"items": items})
    assert telemetry.counts[metrics.REQUESTS] == {("/v1/predict/batch", "200"): 1}
    assert telemetry.counts[metrics.PREDICTIONS] == {("digits", "answer"): 9}
    assert telemetry.counts[metrics.ERRORS] == {("InvalidRequest",): 1}


def test_a_replayed_answer_is_no_new_prediction(counted, clear_digit):
    client, telemetry = counted
    for _ in range(2):
        client.post("/v1/predict", json={"model": "digits", "input": clear_digit}, headers={"Idempotency-Key": "k"})
    assert telemetry.counts[metrics.PREDICTIONS] == {("digits", "answer"): 1}
    assert telemetry.counts[metrics.REQUESTS] == {("/v1/predict", "200"): 2}


def test_what_callers_choose_is_no_label(counted):
    client, telemetry = counted
    client.post("/v1/predict", json={"model": "made-up", "input": 1, "group": "g"}, headers={"Idempotency-Key": "k"})
    client.post("/v1/predict", content=b"{")
    client.get("/nowhere/at-all")
    client.get("/v1/predictions/01936f2e-0000-7000-8000-000000000000")
    assert telemetry.counts[metrics.REQUESTS] == {
        ("/v1/predict", "404"): 1,
        ("/v1/predict", "400"): 1,
        ("other", "404"): 1,
        ("/v1/predictions/{id}", "404"): 1,
    }
    assert telemetry.counts[metrics.ERRORS] == {("UnknownModel",): 1, ("MalformedBody",): 1, ("RecordNotFound",): 1}


class Broken:
    """A host that fails in one way or another."""

    def __init__(self, local_host, error=None):
        self._local_host, self._error = local_host, error

    async def state(self):
        return await self._local_host.state()

    async def decide(self, inputs, groups, draws):
        if self._error:
            raise self._error
        await asyncio.sleep(60)


@pytest.mark.parametrize(("error", "kind"), [(RuntimeError("no"), "failed"), (None, "timeout")])
def test_a_model_that_fails(quickstart, local_host, database, clear_digit, error, kind):
    model = quickstart.models["digits"]
    impatient = model.model_copy(update={"host": model.host.model_copy(update={"timeout_seconds": 0.05})})
    config = quickstart.model_copy(update={"models": {"digits": impatient}})
    handler = make_handler(config, {"digits": Broken(local_host, error)}, database)
    with TestClient(gateway_app(handler, max_body_bytes=10_000)) as client:
        held = client.post("/v1/predict", json={"model": "digits", "input": clear_digit}).json()
    assert held["action"] == "review"
    assert handler.telemetry.counts[metrics.MODEL_FAILURES] == {("digits", kind): 1}
    assert handler.telemetry.counts[metrics.CONFIDENCE_UNKNOWN] == {("digits",): 1}


@pytest.mark.slow
def test_a_database_that_is_away(quickstart, local_host, clear_digit):
    handler = make_handler(quickstart, {"digits": local_host}, Database("postgresql://127.0.0.1:1/none"))
    handler.polls["database"].look()
    with TestClient(gateway_app(handler, max_body_bytes=10_000)) as client:
        assert client.post("/v1/predict", json={"model": "digits", "input": clear_digit}).status_code == 503
    assert handler.telemetry.gauges()[metrics.DATABASE_UP] == {(): 0.0}
    assert handler.telemetry.counts[metrics.COMMIT_FAILURES] == {(): 1}


def test_queues_are_told_with_their_limits(handler):
    gauges = handler.telemetry.gauges()
    assert gauges[metrics.QUEUE_LENGTH].keys() == gauges[metrics.QUEUE_LIMIT].keys()
    assert gauges[metrics.QUEUE_LIMIT]["model", "digits"] == handler.config.models["digits"].host.batch.max_queued
    assert metrics.DATABASE_UP not in gauges  # nobody has looked yet


@pytest.mark.parametrize(("value", "bucket"), [(0.0, 0), (0.1, 0), (0.1001, 1), (0.5, 1), (7.0, 2)])
def test_a_bucket_includes_its_upper_end(value, bucket):
    buckets = Histogram((0.1, 0.5))
    buckets.add(value, 3)
    assert buckets.counts[bucket] == 3
    assert buckets.sum == value * 3


def test_every_metric_has_a_home():
    telemetry = Telemetry()
    counted = {*telemetry.counts, *telemetry.histograms, *telemetry.gauges()} | {metrics.DATABASE_UP}
    assert counted == set(metrics.METRICS)
    names = [name for metric in metrics.METRICS for name in metric.series]
    assert len(names) == len(set(names))
