"""All scores of language models compared on the sums model: tables and pictures for docs/evidence/sums.md.

python -m benchmarks.language.sums [--write docs/evidence/sums.md] [--replies var/sums-evidence]
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.language.findings import Findings, found, n_steps
from benchmarks.language.sums_pictures import sums_pictures
from benchmarks.language.sums_tables import sums_tables
from benchmarks.real.document import with_tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="document whose tables are replaced; its pictures lie in images/")
    parser.add_argument(
        "--replies", type=Path, default=Path("var/sums-evidence"), help="folder of what the model said; reused if there"
    )
    parser.add_argument("--share", type=float, default=1.0, help="of the exercises, for a trial")
    parser.add_argument("--threads", type=int, default=1, help="of torch; more than are free make it slower")
    options = parser.parse_args(arguments)
    if options.write and options.share != 1:
        print(f"{options.write} describes all of the exercises; leave out --share, or --write.")
        return 1
    torch.set_num_threads(options.threads)
    findings = _measured(options.replies, options.share)
    made = sums_tables(findings)
    if options.write:
        options.write.write_text(with_tables(options.write.read_text(encoding="utf-8"), made), encoding="utf-8")
        for name, picture in sums_pictures(findings).items():
            (options.write.parent / "images" / name).write_text(picture, encoding="utf-8")
        print(f"{options.write} and its pictures are written.")
    else:
        print("\n\n".join(f"## {name}\n\n{each}" for name, each in made.items()))
    return 0


def _measured(folder: Path, share: float) -> Findings:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("asking the sums model", total=n_steps(share))
        return found(folder, share=share, advance=lambda n: bar.advance(task, n))


if __name__ == "__main__":
    sys.exit(main())
