"""demur beside the usual way of serving a model with Ray Serve, on this machine, in turns.

usual   a FastAPI ingress that calls a deployment with `@serve.batch` around the model, in a Ray as it comes; no scores,
        no record
tuned   the same with every flag of Ray that `demur up` sets
demur   scores, calibrator, policy, a durable record of every prediction
bare    demur's own gathering of requests and its model, everything else off

All run at once, the usual way in a Ray of its own, and are asked in turns; what else the machine does falls on all
alike.
"""

import argparse
import json
import statistics
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.serving.site import WAYS, Line, Run, Site

BATCH = 64
OTHERS = ("usual", "tuned", "bare")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["digits", "encoder"], choices=["digits", "encoder"])
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 16, 64, 256])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--no-batches", action="store_true", help="leave out batches of 64")
    parser.add_argument("--no-sockets", action="store_true", help="demur calls its hosts by Ray's handle")
    parser.add_argument("--rounds", type=int, default=3, help="how often the ways take turns")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each way in each round")
    parser.add_argument("--json", type=Path, help="write every figure there")
    options = parser.parse_args()
    ways = options.ways
    lines = [Line(model, n) for model in options.models for n in options.concurrency]
    if not options.no_batches:
        lines += [Line(model, n, BATCH) for model in options.models for n in (1, 4)]
    with ExitStack() as opened:
        site = opened.enter_context(Site(options.models, sockets=not options.no_sockets))
        site.start(ways)
        runs = measured(site, lines, ways, options.rounds, options.seconds)
    tell(runs, ways)
    tell_processes(runs)
    if options.json:
        options.json.write_text(json.dumps(as_json(runs), indent=1))


def measured(
    site: Site, lines: list[Line], ways: list[str], rounds: int, seconds: float
) -> dict[tuple[Line, str], list[Run]]:
    runs: dict[tuple[Line, str], list[Run]] = {(line, way): [] for line in lines for way in ways}
    with Progress(transient=True) as bar:
        task = bar.add_task("asking", total=len(lines) * len(ways) * (rounds + 1))
        for line in lines:
            for number in range(rounds + 1):
                for way in ways:
                    run = site.ask(line, way, 1.0 if number == 0 else seconds)
                    if number:  # the first warms up
                        runs[line, way].append(run)
                    bar.advance(task)
    return runs


def tell(runs: dict[tuple[Line, str], list[Run]], ways: list[str]) -> None:
    table = Table()
    for column in ("model", "batch", "concurrency", "way", "requests/s", "predictions/s", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(column, justify="left" if column in ("model", "way") else "right")
    table.add_column("CPU ms/request", justify="right")
    for other in OTHERS:
        table.add_column(f"of {other}", justify="right")
    for (line, way), found in runs.items():
        rate = median(run.predictions_per_second for run in found)
        percentiles = [f"{median(run.seen.milliseconds(q) for run in found):.1f}" for q in (50, 95, 99)]
        of = [_ratio(runs, line, way, other) if other in ways else "" for other in OTHERS]
        rates = f"{rate / line.batch:,.0f}", f"{rate:,.0f}"
        spent = f"{median(run.cpu_milliseconds for run in found):.2f}"
        table.add_row(line.model, str(line.batch), str(line.concurrency), way, *rates, *percentiles, spent, *of)
    Console(width=150).print(table)


def tell_processes(runs: dict[tuple[Line, str], list[Run]]) -> None:
    """Where the processor's time goes."""
    names = sorted({name for found in runs.values() for run in found for name in run.by_process})
    table = Table("model", "batch", "concurrency", "way", *names, title="CPU ms for each request, by process")
    for (line, way), found in runs.items():
        spent = [f"{median(run.by_process.get(name, 0.0) for run in found):.3f}" for name in names]
        table.add_row(line.model, str(line.batch), str(line.concurrency), way, *spent)
    Console(width=200).print(table)


def _ratio(runs: dict[tuple[Line, str], list[Run]], line: Line, way: str, other: str) -> str:
    """Median over the rounds of the ratio within a round."""
    pairs = zip(runs[line, way], runs[line, other], strict=True)
    return f"{median(one.predictions_per_second / two.predictions_per_second for one, two in pairs):.2f}"


def median(values: Any) -> float:
    return float(statistics.median(list(values)))


def as_json(runs: dict[tuple[Line, str], list[Run]]) -> list[dict[str, Any]]:
    return [
        {
            "model": line.model, "batch": line.batch, "concurrency": line.concurrency, "way": way,
            "requests_per_second": run.seen.per_second, "cpu_milliseconds": run.by_process,
            **{f"p{q}": run.seen.milliseconds(q) for q in (50, 95, 99)},
        }
        for (line, way), found in runs.items()
        for run in found
    ]  # fmt: skip


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"{time.monotonic() - began:.0f} s in all")
