"""The alerts for Prometheus: they are valid, and about gauges that the service really has."""

import re
import shutil
import subprocess

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from demur.serve.telemetry.metrics import METRICS
from demur.serve.web.audit.app import COLLECTORS
from demur.serve.web.review.gauges import QueueCollector
from tests.conftest import ROOT

RULES = ROOT / "deploy/prometheus/demur-alerts.yml"


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def test_every_gauge_in_them_is_exported(quickstart_config):
    told: list[Metric] = [metric for make in COLLECTORS for metric in make(quickstart_config, None).describe()]
    told += QueueCollector(None, ["digits"]).describe()
    named = {name for rule in rules() for name in re.findall(r"(?:ray_)?demur_[a-z_]+", rule["expr"])}
    assert named
    assert named <= {metric.name for metric in told} | {name for metric in METRICS for name in metric.series}


def test_each_says_what_is_the_matter_and_where_to_look():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not here; Debian's package prometheus has it")
def test_promtool_takes_them_and_they_fire_when_they_should(tmp_path):
    shutil.copy(RULES, tmp_path)
    shutil.copy(ROOT / "tests/deploy/alerts_test.yml", tmp_path)
    for words in (["check", "rules", RULES.name], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def quickstart_config():
    from demur.serve.configuration import load_config

    return load_config(ROOT / "tests/quickstart.yaml")
