"""A real Prometheus looks at a running service: nothing on the dashboard, and no alert, asks for what is not there."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import yaml
from prometheus_client.metrics_core import Metric

from demur.serve.configuration import load_config
from demur.serve.telemetry.metrics import METRICS
from demur.serve.web.audit.app import COLLECTORS
from demur.serve.web.review.gauges import QueueCollector
from tests.conftest import ROOT, digit_rows
from tests.system.conftest import Service, free_port, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not here; Debian has a package of it"),
]

PATIENCE_SECONDS = 120

NOT_YET = {
    "demur_audit_verdict": "needs an audit",
    "demur_control_last_write_timestamp_seconds": "needs a control",
    "demur_monitor_labelled": "needs labels",
    "demur_monitor_log_wealth": "needs labels",
    "demur_monitor_alarm_line": "needs labels",
    "demur_monitor_risk_target": "needs labels",
    "demur_monitor_risk": "needs labels",
    "demur_monitor_psi": "needs a reference of a thousand records",
    "demur_monitor_psi_p_value": "as above",
    "ray_demur_commit_failures_total": "needs a database that fails",
    "ray_demur_model_failures_total": "needs a model that fails",
    "ray_demur_confidence_unknown_total": "as above",
}
"""What nothing happens to in this test. The names are checked against those that the code declares."""

EXPECTED = {name for metric in METRICS for name in metric.series} - set(NOT_YET)
"""Metrics of the request path."""


class Prometheus:
    """A Prometheus with our configuration, but for the addresses."""

    def __init__(self, service: Service) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="demur-prometheus-"))
        own = yaml.safe_load((service.folder / "demur.yaml").read_text())
        config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        ports = {"127.0.0.1:9464": own["telemetry"]["metrics_port"], "127.0.0.1:8000": service.port}
        for job in config["scrape_configs"]:
            for targets in job["static_configs"]:
                targets["targets"] = [f"127.0.0.1:{ports[target]}" for target in targets["targets"]]
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        shutil.copy(ROOT / "deploy/prometheus/demur-alerts.yml", self.folder)
        address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{address}/api/v1"
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    "--config.file=prometheus.yml",
                    f"--web.listen-address={address}",
                    "--storage.tsdb.path=data",
                ],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def get(self, path: str):
        try:
            told = httpx.get(self.url + path, timeout=10)
        except httpx.TransportError:
            return None  # it is starting
        if told.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return None  # it listens before it is ready
        answer = told.json()
        assert answer["status"] == "success", (path, answer)
        return answer["data"]

    def query(self, expression: str) -> list:
        return self.get(f"/query?query={quote(expression, safe='')}")["result"]

    def names(self) -> set[str]:
        return set(self.get("/label/__name__/values") or ())

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        shutil.rmtree(self.folder, ignore_errors=True)


def _has_seen_all(opened: Prometheus) -> bool:
    """Whether each metric that happens has come, and each rule was evaluated, whatever came of it."""
    rules = [rule for group in (opened.get("/rules") or {"groups": []})["groups"] for rule in group["rules"]]
    return bool(rules) and all(rule["health"] != "unknown" for rule in rules) and opened.names() >= EXPECTED


@pytest.fixture(scope="module")
def prometheus(watched, digits):
    """It has looked at the service for a while, during which this was used."""
    opened = Prometheus(watched)
    rows = digit_rows(digits)[:150]
    try:
        with httpx.Client(base_url=watched.url, timeout=30) as http:
            for at in range(0, len(rows), 10):
                for row in rows[at : at + 10]:
                    http.post("/v1/predict", json={"model": "digits", "input": row["input"]})
                http.post("/v1/predict", json={"model": "none", "input": 1})
                time.sleep(0.5)  # so that there are rates
            wait_until(lambda: _has_seen_all(opened), patience=PATIENCE_SECONDS, why=opened.names)
        yield opened
    finally:
        opened.close()


def panels():
    return [
        panel for panel in json.loads((ROOT / "deploy/grafana/demur.json").read_text())["panels"] if "targets" in panel
    ]


def as_grafana_asks(expression: str) -> str:
    return expression.replace("$__rate_interval", "1m").replace("$model", ".*")


def named(expression: str) -> set[str]:
    """The metrics in an expression."""
    return set(re.findall(r"\b(?:ray|demur)_[a-z0-9_]+", re.sub(r'"[^"]*"', "", expression)))


def test_every_target_answers(prometheus):
    def found():
        targets = prometheus.get("/targets")["activeTargets"]
        return {target["labels"]["job"]: (target["health"], target["lastError"]) for target in targets}

    expected = dict.fromkeys(("demur-ray", "demur-review", "demur-audit"), ("up", ""))
    wait_until(lambda: found() == expected, why=found)  # one may have been too late for the second that it has


def test_every_metric_of_the_request_path_arrives(prometheus):
    assert EXPECTED - prometheus.names() == set()


def test_every_panel_shows_something(prometheus):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while wrong := [said for panel in panels() for target in panel["targets"] if (said := amiss(prometheus, target))]:
        assert time.monotonic() < deadline, wrong  # a gauge may be about to come again
        time.sleep(1)


def amiss(prometheus, target) -> str:
    """What is wrong with a query of the dashboard; empty where it is answered with the labels of its legend."""
    asked = target["expr"]
    found = prometheus.query(as_grafana_asks(asked))
    if not (found or named(asked) & set(NOT_YET)):
        return f"{asked}: nothing"
    if missing := named(asked) - prometheus.names() - set(NOT_YET):
        return f"{asked}: there is no {missing}"
    labels = {label for one in found for label in one["metric"]}
    unknown = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - labels
    return f"{asked}: there is no label {unknown}" if labels and unknown else ""


def test_every_alert_can_be_evaluated_and_asks_for_what_is_there(prometheus):
    rules = [rule for group in prometheus.get("/rules")["groups"] for rule in group["rules"]]
    written = yaml.safe_load((ROOT / "deploy/prometheus/demur-alerts.yml").read_text())["groups"]
    assert len(rules) == sum(len(group["rules"]) for group in written)
    for rule in rules:
        assert rule["health"] == "ok", rule
        assert named(rule["query"]) - prometheus.names() <= set(NOT_YET), rule["name"]
    firing = {rule["name"] for rule in rules if rule["alerts"] and rule["state"] == "firing"}
    assert not firing


def test_what_has_not_happened_here_is_declared():
    config = load_config(ROOT / "tests/quickstart.yaml")
    told: list[Metric] = [metric for make in COLLECTORS for metric in make(config, None).describe()]
    told += QueueCollector(None, ["digits"]).describe()
    declared = {metric.name for metric in told} | {name for metric in METRICS for name in metric.series}
    assert set(NOT_YET) <= declared


def test_what_is_counted_is_what_was_asked(prometheus, watched):
    """Over all routes and to the last one: counters of gateways reach Prometheus without loss."""
    with httpx.Client(base_url=watched.url, timeout=30) as http:
        wait_until(lambda: told(prometheus) is not None)
        before = told(prometheus)
        for _ in range(20):
            http.post("/v1/predict", json={"model": "none", "input": 1})
    wait_until(lambda: told(prometheus) == before + 20)


def told(prometheus) -> float | None:
    """How many, or nothing: Prometheus forgets a series while its source answers too late."""
    found = prometheus.query('sum(ray_demur_errors_total{kind="UnknownModel"})')
    return float(found[0]["value"][1]) if found else None


def test_every_line_of_the_log_is_json_and_names_its_request(watched):
    with httpx.Client(base_url=watched.url, timeout=30) as http:
        response = http.post(
            "/v1/predict?secret=1", json={"model": "none", "input": "a text"}, headers={"X-Request-Id": "order-7"}
        )
        assert response.headers["x-request-id"] == "order-7"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while '"order-7"' not in watched.said():
        assert time.monotonic() < deadline, watched.said()[-2000:]
        time.sleep(0.2)
    lines = [json.loads(line) for line in watched.said().splitlines() if line.startswith("{")]
    (access,) = [line for line in lines if line.get("request_id") == "order-7"]
    assert (access["path"], access["status"], access["logger"]) == ("/v1/predict", 422, "demur.access")  # `secret`
    assert "a text" not in watched.said()
    assert "secret=1" not in watched.said()


def test_a_trace_goes_through_gateway_host_and_database(watched, collector, digits):
    trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    with httpx.Client(base_url=watched.url, timeout=30) as http:
        body = {"model": "digits", "input": digit_rows(digits)[0]["input"]}
        http.post("/v1/predict", json=body, headers={"traceparent": f"00-{trace}-{caller}-01"})
    at_host = {"host digits": {"forward": {}, "scores": {}}}
    whole = {"POST /v1/predict": {"queue": {}, "model digits": {"batch digits": at_host}, "commit": {}}}
    deadline = time.monotonic() + PATIENCE_SECONDS
    while collector.tree(caller) != whole:  # each process sends its own, every few seconds
        assert time.monotonic() < deadline, collector.tree(caller)
        time.sleep(0.5)
    assert {span.trace for span in collector.spans} == {trace}  # nobody else was traced
    assert {span.part for span in collector.spans} == {"gateway", "host digits"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here; it comes with prometheus")
def test_promtool_takes_the_configuration():
    done = subprocess.run(
        ["promtool", "check", "config", "prometheus.yml"],
        cwd=ROOT / "deploy/prometheus", capture_output=True, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
