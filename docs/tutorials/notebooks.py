"""Run the tutorials, and write each one as a notebook with what it showed.

    python -m docs.tutorials.notebooks [NAME ...]       (all of them by default; `make tutorials`)

A tutorial is a script whose cells begin with `# %%`. It runs as it is, too: `python docs/tutorials/1_tabular_risk.py`.
"""

import sys
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient

HERE = Path(__file__).parent

CELL_SECONDS = 600
"""A cell that takes longer has failed."""


def scripts() -> list[Path]:
    """The tutorials, in their order."""
    return sorted(HERE.glob("[0-9]_*.py"))


def notebook_of(script: Path) -> Any:
    """Return the cells of a script as a notebook that was not run yet, each time the same one."""
    notebook = jupytext.read(script)
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    return notebook


def run_notebook(notebook: Any, folder: Path) -> None:
    """Run all cells in a folder, and keep what they show. Raises `CellExecutionError` at the first one that fails."""
    NotebookClient(
        notebook, timeout=CELL_SECONDS, record_timing=False, resources={"metadata": {"path": str(folder)}}
    ).execute()
    notebook.metadata.pop("language_info", None)  # which changes with every version of Python


def main() -> None:
    """Run the tutorials that were named, and write their notebooks beside them."""
    for script in scripts():
        if len(sys.argv) == 1 or script.stem in sys.argv[1:]:
            print(script.stem, flush=True)
            notebook = notebook_of(script)
            run_notebook(notebook, HERE)
            jupytext.write(notebook, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    main()
