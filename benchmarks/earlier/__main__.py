"""What cases, outcomes, pages, audits and exports cost now and in an earlier commit, side by side.

    python -m benchmarks.earlier c950735c [--parts cases outcomes] [--rounds 5]

Both trees take turns, each in processes and a PostgreSQL of its own, in this Python environment. Milliseconds of
processors, PostgreSQL's included, and on the wall: medians of the rounds. What else the machine does moves the wall.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
PATHS = Path(__file__).with_name("paths.py")
PARTS = ("cases", "outcomes", "pages", "audits", "parquet")

Costs = dict[str, list[dict[str, float]]]
"""By path, one for each round."""


class Failed(RuntimeError):
    """A tree could not be made or measured."""


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit, beside the ones here."""
    tree = folder / "tree"
    _run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], ROOT)
    try:
        yield tree
    finally:
        _run(["git", "worktree", "remove", "--force", str(tree)], ROOT)


def measured(tree: Path, folder: Path, part: str) -> dict[str, dict[str, float]]:
    """Return what each path of a part costs in a tree."""
    package = folder / f"as-package-{tree.name}"
    package.mkdir(exist_ok=True)
    if not (package / "demur").exists():
        (package / "demur").symlink_to(tree)  # before what this environment has installed
    environment = {**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{tree}"}
    told = _run([sys.executable, str(PATHS), part], tree, environment)
    lines = [json.loads(line) for line in told.splitlines() if line.startswith('{"path"')]
    return {line.pop("path"): line for line in lines}


def _run(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(  # noqa: S603 - our own command
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{' '.join(command[:4])} in {folder} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def compared(before: Costs, now: Costs) -> list[tuple[str, float, float, float, float, float]]:
    """Return for each path that both trees have: processors before and now, their ratio, and the wall of both."""
    rows = []
    for path in before:
        if path in now:
            medians = [
                statistics.median(one[what] for one in costs[path])
                for what in ("processors", "wall")
                for costs in (before, now)
            ]
            rows.append((path, medians[0], medians[1], medians[1] / medians[0], medians[2], medians[3]))
    return rows


def shown(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 100 else f"{milliseconds:.3g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="a commit, of this repository")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    costs: dict[str, Costs] = {"before": {}, "now": {}}
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with (
            tempfile.TemporaryDirectory(prefix="demur-bench-") as folder,
            checked_out(options.before, Path(folder)) as tree,
            Progress(*columns, transient=True, console=Console(stderr=True)) as bar,
        ):
            task = bar.add_task("turns", total=2 * options.rounds * len(options.parts))
            for number in range(options.rounds):
                for part in options.parts:
                    turns = [("before", tree), ("now", ROOT)]
                    for name, where in turns if number % 2 == 0 else reversed(turns):
                        for path, took in measured(where, Path(folder), part).items():
                            costs[name].setdefault(path, []).append(took)
                        bar.advance(task)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    table = Table("", title=f"milliseconds: {options.before}, and now", title_justify="left")
    for column in ("processors before", "now", "ratio", "wall before", "now"):
        table.add_column(column, justify="right")
    for path, *numbers, before_wall, wall in compared(costs["before"], costs["now"]):
        before, now, ratio = numbers
        table.add_row(path, shown(before), shown(now), f"{ratio:.2f}", shown(before_wall), shown(wall))
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
