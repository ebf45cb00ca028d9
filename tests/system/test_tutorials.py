"""Each tutorial runs as it is printed, as a notebook in an empty folder, and shows pictures and no warning.

In every run the first one; the others at night. `test_child_service.py` starts a service as three of those do.
"""

import pytest

from docs.tutorials.notebooks import notebook_of, run_notebook, scripts

pytestmark = pytest.mark.slow

IN_EVERY_RUN = ("1_tabular_risk",)

TUTORIALS = [
    pytest.param(script, id=script.stem, marks=() if script.stem in IN_EVERY_RUN else pytest.mark.long)
    for script in scripts()
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of Jupyter's own
@pytest.mark.parametrize("script", TUTORIALS)
def test_a_tutorial_runs(script, tmp_path):
    notebook = notebook_of(script)
    run_notebook(notebook, tmp_path)
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [one.text for one in shown if one.get("name") == "stderr"] == []
    assert any("image/png" in one.get("data", {}) for one in shown)
