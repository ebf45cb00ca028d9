"""docs/telemetry.md and docs/configuration.md say what there is."""

import re

from demur.serve.config.telemetry import TelemetryConfig
from demur.serve.telemetry.metrics import METRICS
from tests.conftest import ROOT


def test_every_metric_is_in_the_table_with_its_labels():
    rows = {}
    for line in (ROOT / "docs/telemetry.md").read_text().splitlines():
        if line.startswith("| `ray_demur_"):
            name, kind, labels, meaning = (cell.strip() for cell in line.strip("|").split(" | "))
            rows[name.split("`")[1]] = (kind, tuple(re.findall(r"`(.+?)`", labels)), meaning.removesuffix(" |"))
    assert rows == {metric.series[0]: (metric.kind, metric.labels, metric.meaning) for metric in METRICS}


def test_every_setting_is_documented():
    text = (ROOT / "docs/configuration.md").read_text()
    assert set(re.findall(r"^\| `telemetry\.(\w+)", text, re.M)) == set(TelemetryConfig.model_fields)
