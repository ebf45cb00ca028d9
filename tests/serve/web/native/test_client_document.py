"""Every example of docs/client.md runs, one after the other, as a reader would."""

import re
import shutil
import subprocess
import sys

import pytest

from demur.serve.web.native.app import gateway_app
from tests.conftest import ROOT
from tests.serve.listening import listening

PAGE = (ROOT / "docs/client.md").read_text()


@pytest.fixture
def url(handler, quickstart):
    with listening(gateway_app(handler, max_body_bytes=quickstart.limits.body_bytes)) as address:
        yield address


def test_the_python_examples(url, digits, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DEMUR_URL", url)
    (tmp_path / "var/digits").mkdir(parents=True)
    shutil.copy(digits / "test.jsonl", tmp_path / "var/digits")
    names = {"__name__": "example"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 6
    for block in blocks:
        exec(compile(block, "docs/client.md", "exec"), names)
    names["client"].close()
    said = capsys.readouterr().out
    assert re.search(r"^\d+ of 400 answered$", said, re.M)
    assert "input 1: input: the shape is 1 x 1; this model takes 8 x 8" in said
    assert "nobody has answered within 2 s; the case is waiting" in said


@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "outcomes"])
def test_the_commands_have_the_options_that_the_page_names(command):
    named = set(re.findall(r"--[a-z-]+", " ".join(re.findall(rf"demur {command} [^\n`]*", PAGE))))
    shown = subprocess.run(
        [sys.executable, "-P", "-m", "demur", command, "--help"], capture_output=True, text=True, cwd=ROOT
    ).stdout
    assert named <= set(re.findall(r"--[a-z-]+", shown))
