"""What goes to Ray's agent: only what has come, in the shape that Prometheus takes."""

import pytest

from demur.serve.deployments import ray_metrics
from demur.serve.telemetry import metrics
from demur.serve.telemetry.telemetry import Telemetry


class Heard:
    """In the place of a metric of Ray."""

    def __init__(self, name, description, tag_keys):
        assert description
        self.name, self.keys = name, tag_keys
        self.told = []

    def inc(self, value, tags):
        assert set(tags) == set(self.keys)
        assert value > 0
        self.told.append((value, tags))

    set = inc


@pytest.fixture
def exported(monkeypatch):
    """A telemetry, its exporter, and the counters that it told."""
    heard = {}

    def hear(name, description, tag_keys=()):
        return heard.setdefault(name, Heard(name, description, tag_keys))

    monkeypatch.setattr(ray_metrics, "Counter", hear)
    monkeypatch.setattr(ray_metrics, "Gauge", lambda *words: Gauge())
    telemetry = Telemetry()
    return telemetry, ray_metrics.RayMetrics(telemetry), heard


class Gauge:
    def set(self, value, tags):
        assert value >= 0


def test_a_histogram_becomes_cumulative_buckets(exported):
    telemetry, exporter, heard = exported
    for seconds in (0.0004, 0.02, 99.0):
        telemetry.answered("/v1/predict", 200, seconds)
    exporter.flush()
    buckets = {tags["le"]: value for value, tags in heard["demur_request_seconds_bucket"].told}
    assert buckets["0.0005"] == 1
    assert buckets["0.015"] == 1
    assert buckets["0.025"] == 2
    assert buckets["30"] == 2
    assert buckets["+Inf"] == 3
    assert len(buckets) == len(metrics.SECONDS) + 1
    assert heard["demur_request_seconds_count"].told == [(3, {"route": "/v1/predict"})]
    assert heard["demur_request_seconds_sum"].told[0][0] == pytest.approx(99.0204)
    assert heard["demur_requests"].told == [(3, {"route": "/v1/predict", "status": "200"})]


def test_only_what_has_come_since_is_added(exported):
    telemetry, exporter, heard = exported
    telemetry.answered("/v1/predict", 200, 0.02)
    exporter.flush()
    exporter.flush()
    assert len(heard["demur_requests"].told) == 1
    telemetry.answered("/v1/predict", 200, 0.2)
    exporter.flush()
    buckets = heard["demur_request_seconds_bucket"].told
    by_bound = {}
    for value, tags in buckets:
        by_bound[tags["le"]] = by_bound.get(tags["le"], 0) + value
    assert by_bound["0.025"] == 1
    assert by_bound["0.25"] == by_bound["+Inf"] == 2
