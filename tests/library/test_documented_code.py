"""The Python code in the documents runs as it stands there."""

import re

import pytest

from tests.conftest import ROOT


def blocks_of(page, containing=""):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    return [block for block in blocks if containing in block]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "containing", "least"), [("docs/library.md", "", 8), ("README.md", "SelectiveCl", 1)])
def test_the_code_of_a_page_runs_from_top_to_bottom(page, containing, least, tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    blocks, names = blocks_of(page, containing), {}
    assert len(blocks) >= least
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert "Promise: at most 5% of the answers are wrong" in capsys.readouterr().out
