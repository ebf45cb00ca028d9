"""docs/beside.md: its code runs as it is printed, and its configuration is read."""

import re
from importlib.util import find_spec

import numpy as np
import pytest
import yaml

from demur.serve.config.file import Config
from tests.conftest import ROOT

PAGE = (ROOT / "docs/beside.md").read_text()

with_peers = pytest.mark.skipif(
    not all(find_spec(name) for name in ("mapie", "crepes")), reason="MAPIE and crepes are missing: make setup-bench"
)


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@with_peers
@pytest.mark.slow
def test_the_code_for_mapie_and_crepes_runs():
    names = {}
    for block in blocks("python"):
        exec(block, names)
    truth = names["y"][1000:]
    rows, wrong = np.arange(len(truth)), names["decisions"].prediction != truth
    assert names["sets"].shape == (len(truth), 10, 1)
    assert names["p_values"].shape == (len(truth), 10)
    assert names["sets"][rows, truth, 0].mean() > 0.93  # a set has the right class in 95% of the rows
    assert wrong[names["decisions"].answered].mean() < 0.05
    assert 0.5 < names["decisions"].coverage < 1
    assert names["largest_p"][wrong].mean() < names["largest_p"][~wrong].mean()  # larger means surer


def test_its_versions_are_those_of_the_benchmarks():
    pinned = dict(re.findall(r"^(mapie|crepes)==(\S+)", (ROOT / "locks/bench.txt").read_text(), re.MULTILINE))
    words = " ".join(PAGE.split())
    assert f"run with MAPIE {pinned['mapie']}" in words
    assert f"run with crepes {pinned['crepes']}" in words


def test_its_configurations_are_read():
    for block in blocks("yaml"):
        assert Config.model_validate(yaml.safe_load(block)).models
    (host,) = re.findall(r"`host: (\{kind: given, gives: .*?\}\})`", PAGE)
    model = {
        "task": {"kind": "multiclass", "labels": ["a", "b"]},
        "host": yaml.safe_load(host),
        "scores": ["largest_p"],
        "confidence": {"score": "largest_p"},
        "policy": {"kind": "selective_risk", "max_risk": 0.05},
    }
    assert Config.model_validate({"models": {"digits": model}}).models
