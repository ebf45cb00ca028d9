"""What the methods do on stored outputs of language models: tables and pictures for docs/evidence/language-models.md.

python benchmarks/real/language_models.py [--data FOLDER] [--write docs/evidence/language-models.md]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file, it finds the rooms that it lies beside

from rich.console import Console
from rich.progress import Progress

from benchmarks.real.document import with_tables
from benchmarks.real.language_model_findings import Findings, Step, missing, steps
from benchmarks.real.language_model_pictures import language_model_pictures
from benchmarks.real.language_model_tables import language_model_tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced; its pictures lie in images/")
    options = parser.parse_args(arguments)
    todo, absent = steps(options.data), missing(options.data)
    if not todo:
        print(f"There are no stored outputs of language models in {options.data}, so there is nothing to measure.")
        return 0
    if absent:
        print(f"Left out, since their files are not in {options.data}: {', '.join(absent)}.")
        if options.write:
            print(f"{options.write} is left as it is: it describes all of the data.")
            return 1
    found = Findings(**_measured(todo))
    made = language_model_tables(found)
    if options.write:
        options.write.write_text(with_tables(options.write.read_text(encoding="utf-8"), made), encoding="utf-8")
        for name, picture in language_model_pictures(found).items():
            (options.write.parent / "images" / name).write_text(picture, encoding="utf-8")
        print(f"{options.write} and its pictures are written.")
    else:
        print("\n\n".join(f"## {name}\n\n{each}" for name, each in made.items()))
    return 0


def _measured(todo: Sequence[Step]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("measuring", total=len(todo))
        for step in todo:
            bar.update(task, description=f"measuring {step.name}")
            started = time.monotonic()
            found |= step.measure()
            console.print(f"{step.name}: {time.monotonic() - started:.0f} s")
            bar.advance(task)
    return found


if __name__ == "__main__":
    sys.exit(main())
