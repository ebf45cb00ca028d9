"""The language model of the quickstart, as `make run` serves it: fitted at the first start, and worth asking."""

import json
import subprocess
import sys

import pytest
import yaml

from tests.conftest import ROOT
from tests.system.conftest import Service

pytestmark = pytest.mark.slow


def test_what_it_answers_is_right_more_often_than_what_it_says(digits):
    service = Service(digits)
    try:
        parts = service.folder / "var/sums"
        subprocess.run([sys.executable, "-m", "deploy.models.sums.parts", parts], check=True, cwd=ROOT)
        content = yaml.safe_load((ROOT / "deploy/quickstart.yaml").read_text())
        sums = content["models"]["sums"]
        sums["host"]["checkpoint"] = str(ROOT / "deploy/models/sums")
        content |= {"http": {"host": "127.0.0.1", "port": service.port}, "models": {"sums": sums}}
        (service.folder / "demur.yaml").write_text(yaml.safe_dump(content))
        service.start(patience=400)
        printed = service.run("demo", "--model", "sums")
        every = next(line for line in printed.splitlines() if line.startswith("│ all")).split("│")
        rows, of_all, of_answered = (float(every[at].strip().rstrip("%")) for at in (2, 5, 6))
        assert of_answered > of_all, printed
        service.run("audit", "--model", "sums", "--every-outcome-known", "--out", "report")
        numbers = json.loads((service.folder / "report/sums.json").read_text())
        (risk,) = [line for line in numbers["estimates"] if line["name"] == "risk"]
        assert 1 - risk["value"] == pytest.approx(of_all / 100, abs=0.001)
        assert risk["labelled"] == rows
    finally:
        service.remove()
