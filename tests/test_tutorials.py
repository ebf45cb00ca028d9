"""Tutorials: short, and each notebook is the one of its script. tests/system/test_tutorials.py runs them."""

import nbformat
import pytest

from docs.tutorials.notebooks import HERE, notebook_of, scripts
from tests.conftest import ROOT

MOST_LINES = 60
"""Of code in a tutorial, beside blank lines, comments and the words between the cells."""

SCRIPTS = pytest.mark.parametrize("script", scripts(), ids=lambda script: script.stem)


@SCRIPTS
def test_a_notebook_belongs_to_its_script(script):
    told = [(cell.cell_type, cell.source) for cell in notebook_of(script).cells]
    committed = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    assert [(cell.cell_type, cell.source) for cell in committed.cells] == told, "run `make tutorials`"
    assert all(cell.execution_count for cell in committed.cells if cell.cell_type == "code"), "run `make tutorials`"


@SCRIPTS
def test_a_tutorial_is_short(script):
    lines = [line.strip() for line in script.read_text().splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in lines) < MOST_LINES


@SCRIPTS
def test_the_index_names_it(script):
    assert f"(tutorials/{script.stem}.ipynb)" in (ROOT / "docs/README.md").read_text()


def test_no_notebook_is_left_of_a_script_that_went():
    assert {path.stem for path in HERE.glob("*.ipynb")} == {script.stem for script in scripts()}
