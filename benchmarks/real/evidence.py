"""What the scores, calibrators and metrics say about stored outputs of real models: tables for docs/evidence/models.md.

python benchmarks/real/evidence.py [--data FOLDER] [--write docs/evidence/models.md]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file, it finds the rooms that it lies beside

from rich.console import Console
from rich.progress import Progress

from benchmarks.real import peers, promises
from benchmarks.real.document import with_tables
from benchmarks.real.measurement import Measurement, measure
from benchmarks.real.pictures import pictures
from benchmarks.real.predictions import Predictions
from benchmarks.real.promise_tables import promise_tables
from benchmarks.real.sources import SOURCES
from benchmarks.real.tables import tables


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced; its pictures lie in images/")
    options = parser.parse_args(arguments)
    there = [source for source in SOURCES if source.is_in(options.data)]
    missing = [source.name for source in SOURCES if source not in there]
    missing += [f"{name} (promises)" for name in promises.missing(options.data)]
    steps = promises.steps(options.data)
    if not there and not steps:
        print(f"There are no stored model outputs in {options.data}, so there is nothing to measure.")
        return 0
    if missing:
        print(f"Left out, since their files are not in {options.data}: {', '.join(missing)}.")
        if options.write:
            print(f"{options.write} is left as it is: it describes all of the data.")
            return 1
    if not peers.are_installed():
        print(f"MAPIE and crepes are not installed, and are left out; this installs them: {peers.INSTALL}")
        if options.write:
            print(f"{options.write} is left as it is: it compares with them.")
            return 1

    read = [(source.name, each) for source in there for each in source.read(options.data / source.folder)]
    made = {**tables(there, _measured(read)), **promise_tables(_kept(steps))}
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_tables(document, made, partly=True), encoding="utf-8")
        for name, picture in pictures([each for _, each in read]).items():
            (options.write.parent / "images" / name).write_text(picture, encoding="utf-8")
        print(f"{options.write} and its pictures are written.")
    else:
        print("\n\n".join(f"## {name}\n\n{table}" for name, table in made.items()))
    return 0


def _measured(read: Sequence[tuple[str, Predictions]]) -> list[Measurement]:
    found = []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("measuring", total=len(read))
        for data, predictions in read:
            bar.update(task, description=f"measuring {data}: {predictions.model}")
            found.append(measure(data, predictions))
            bar.advance(task)
    return found


def _kept(steps: Sequence[promises.Step]) -> list[promises.Outcome]:
    found: list[promises.Outcome] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("checking promises", total=len(steps))
        for step in steps:
            bar.update(task, description=f"checking promises: {step.name}")
            started = time.monotonic()
            found += step.measure()
            console.print(f"promises, {step.name}: {time.monotonic() - started:.0f} s")
            bar.advance(task)
    return found


if __name__ == "__main__":
    sys.exit(main())
