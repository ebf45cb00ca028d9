"""The examples of docs/python-models.md, and the table of docs/models.md, hold."""

import re
import sys

import numpy as np
import pytest
import yaml

from demur.serve.config.file import Config
from demur.serve.contract.inputs import TableRow, TextPair, example_of
from demur.serve.hosts.kinds import KINDS, check_here
from tests.conftest import ROOT
from tests.serve.hosts.onnx.running import run

PAGE = (ROOT / "docs/python-models.md").read_text()
CLASSES = re.findall(r"```python\n(.*?)```", PAGE, re.S)
SECTIONS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.S)]

INPUTS = [
    [TableRow((40.0, 3.0, "basic")), TableRow((20.0, 0.0, "full"))],
    [TextPair(text="a b", text_pair="b a"), TextPair(text="a", text_pair="c")],
    [np.ones((3, 8, 8), np.float32), np.full((3, 20, 11), 255, np.uint8)],
]
RIGHT = [[True, False], [True, False], [True, True]]
"""Whether the second label is the more probable one."""


@pytest.fixture
def _project(tmp_path, monkeypatch):
    (tmp_path / "our_models.py").write_text("\n\n".join(CLASSES))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("our_models", None)
    yield
    sys.modules.pop("our_models", None)


@pytest.mark.usefixtures("_project")
@pytest.mark.parametrize("at", range(3))
def test_each_example_serves(at):
    assert len(CLASSES) == len(SECTIONS) == 3
    more = {
        "scores": ["entropy"],
        "confidence": {"score": "entropy"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    model = Config.model_validate({"models": {"mine": SECTIONS[at] | more}}).models["mine"]
    check_here(model)
    spec, output = run(model, INPUTS[at])
    assert (output.probabilities[:, 1] > 0.5).tolist() == RIGHT[at]
    assert output.usable().all()
    assert run(model, [example_of(spec)])[1].usable().all()


def test_the_table_names_every_kind():
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/models.md").read_text(), re.M)
    assert sorted(rows) == sorted(KINDS)
