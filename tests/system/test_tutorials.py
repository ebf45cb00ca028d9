"""Each tutorial runs as it is printed, as a notebook in an empty folder, and shows pictures and no warning."""

import pytest

from docs.tutorials.notebooks import notebook_of, run_notebook, scripts

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of Jupyter's own
@pytest.mark.parametrize("script", scripts(), ids=lambda script: script.stem)
def test_a_tutorial_runs(script, tmp_path):
    notebook = notebook_of(script)
    run_notebook(notebook, tmp_path)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [one.text for one in shown if one.get("name") == "stderr"] == []
    assert any("image/png" in one.get("data", {}) for one in shown)
