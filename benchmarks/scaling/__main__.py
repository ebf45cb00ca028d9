"""How far demur goes with more gateways and hosts: measured on this machine, and modelled up to 10,000 a second.

measure  starts a service for each number of gateways and hosts, asks it, and writes points into a file: throughput,
         latencies, and processor time of each part. `one node` is a Ray as `demur up` has it; `three nodes` is a Ray
         of a head and two nodes on this machine. `--apart` gives a part a processor of its own.
model    reads that file, finds what each part pays for a request, a row, a call and a commit, simulates the service,
         and shows measured beside predicted. Then it shows what 100 to 10,000 predictions a second take.
growth   writes records by the million and shows what an insert, an index, a look-up, a key, a deletion and a Parquet
         segment cost.

All tables are in Markdown, on stdout; progress is on stderr.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil

from benchmarks.scaling import measurement, plan
from benchmarks.scaling.costs import fit, fitted_points
from benchmarks.scaling.measurement import BadMeasurement, Measurement
from benchmarks.scaling.report import (
    progress,
    say,
    show_costs,
    show_fleets,
    show_growth,
    show_points,
    show_predicted,
    show_records,
    show_sensitivity,
)

POINTS, GROWTH = Path("var/scaling.json"), Path("var/growth.json")
LOADS = ("1x1", "1x16", "1x64", "16x4", "64x1", "64x4")
LOADS_APART = ("1x64", "64x4")


def pair(told: str) -> tuple[int, int]:
    """Read `2x1`."""
    try:
        first, second = (int(number) for number in told.split("x"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{told!r} is no pair of numbers; write one as 2x1") from None
    if min(first, second) < 1:
        raise argparse.ArgumentTypeError(f"{told!r}: both numbers are 1 or more")
    return first, second


def measure(options: argparse.Namespace) -> None:
    """Measure service after service; the file has what was found so far after each."""
    from benchmarks.scaling.measuring import OfferedLoad, all_points, flushes
    from benchmarks.serving.site import in_own_process

    with tempfile.TemporaryDirectory(prefix="demur-bench-") as folder:
        took = flushes(Path(folder))
    found = Measurement(
        cores=psutil.cpu_count() or 1,
        flush_seconds=float(np.median(took)),
        flush_cv=float(took.std() / took.mean()),
    )
    if options.add and options.json.exists():
        found = measurement.read(options.json)
    few = [OfferedLoad(*pair) for pair in options.loads_apart]
    loads = {"": [OfferedLoad(*pair) for pair in options.loads], **dict.fromkeys(options.apart, few)}
    for layout in options.layouts:
        for gateways, hosts in options.services:
            points = in_own_process(all_points, layout, gateways, hosts, loads, options.seconds)
            found = replace(found, points=[*found.points, *points])
            measurement.write(found, options.json)
    show_points(found.points)


def growth(options: argparse.Namespace) -> None:
    """Write records by the million, and a file of what that cost."""
    from benchmarks.scaling import growth as growing

    found = growing.measure(options.records, say)
    measurement.write(found, options.json)
    show_growth(found)


def model(options: argparse.Namespace) -> None:
    """Show costs, measured beside predicted, and the plan."""
    found = measurement.read(options.json)
    grown = measurement.read_growth(options.growth) if options.growth else None
    layouts = list(dict.fromkeys(point.layout for point in found.points))
    wanted = options.layout or layouts[-1]
    flush = {"flush_seconds": found.flush_seconds, "flush_cv": found.flush_cv}
    costs = {
        layout: fit(fitted_points(found.points, layout, options.most_others), **flush) for layout in {*layouts, wanted}
    }
    show_costs(costs)
    planned = costs[wanted].scaled(options.scale)
    factor = show_predicted(found, costs, options.most_others)
    limits = {"most_busy": options.most_busy, "p99": options.p99 / 1000}
    with progress() as bar:
        tasks = [(rate, rows, 1) for rows in (1, options.rows) for rate in options.rates]
        tasks += [(max(options.rates), 1, cells) for cells in options.cells]
        fleets = [plan.fleet(rate, rows, planned, cells=cells, **limits) for rate, rows, cells in bar.track(tasks)]
        show_fleets(fleets, planned, options, factor)
        show_sensitivity(
            max(fleets, key=lambda one: (one.rate, -one.rows, one.layout.cells)),
            planned,
            options.factor,
            **limits,
        )
    if grown:
        show_growth(grown)
        show_records(grown, costs[wanted], options)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="measure|model|growth")
    add_measure(commands.add_parser("measure", help="ask services of several sizes, and write a file of points"))
    add_model(commands.add_parser("model", help="measured beside predicted, and the plan"))
    one = commands.add_parser("growth", help="write records by the million")
    one.add_argument("--json", type=Path, default=GROWTH, help="the file")
    one.add_argument("--records", nargs="+", type=int, default=[100_000, 1_000_000, 5_000_000], help="sizes of the log")
    one.set_defaults(work=growth)
    options = parser.parse_args()
    try:
        options.work(options)
    except BadMeasurement as error:
        raise SystemExit(str(error)) from None


def add_measure(one: argparse.ArgumentParser) -> None:
    """Add the options of `measure`."""
    one.add_argument("--json", type=Path, default=POINTS, help="the file")
    one.add_argument("--add", action="store_true", help="keep the points that the file has, and add to them")
    one.add_argument("--layouts", nargs="+", default=["one node"], choices=["one node", "three nodes"])
    one.add_argument("--services", nargs="+", type=pair, default=[(1, 1), (2, 1), (1, 2), (2, 2)], metavar="GxH",
                     help="gateways and hosts of each service")  # fmt: skip
    one.add_argument("--loads", nargs="+", type=pair, default=[pair(told) for told in LOADS], metavar="RxC",
                     help="predictions in a request, and callers")  # fmt: skip
    one.add_argument("--loads-apart", nargs="+", type=pair, default=[pair(told) for told in LOADS_APART],
                     metavar="RxC", help="loads under which a part is set apart")  # fmt: skip
    one.add_argument("--apart", nargs="*", default=["gateway", "host"], choices=["gateway", "host", "postgres"],
                     help="parts that get processor 0 for themselves, one after another")  # fmt: skip
    one.add_argument("--seconds", type=float, default=4.0, help="of each load")
    one.set_defaults(work=measure)


def add_model(one: argparse.ArgumentParser) -> None:
    """Add the options of `model`."""
    one.add_argument("--json", type=Path, default=POINTS, help="the file of `measure`")
    one.add_argument("--growth", type=Path, help="the file of `growth`: adds what the records take")
    one.add_argument("--layout", help="whose costs the plan goes by; the last one measured, unless given")
    one.add_argument(
        "--scale", type=float, default=1.0, help="the plan's machine takes so many times the processor time"
    )
    one.add_argument("--rates", nargs="+", type=float, default=[100, 1000, 3000, 10_000], help="predictions a second")
    one.add_argument("--cells", nargs="*", type=int, default=[4],
                     help="groups of gateways with hosts of their own, for single ones at the last rate")  # fmt: skip
    one.add_argument("--most-others", type=float, default=1.0,
                     help="processors that others may have used at a point on which costs are fitted")  # fmt: skip
    one.add_argument("--rows", type=int, default=64, help="predictions in a request, beside single ones")
    one.add_argument("--most-busy", type=float, default=0.6, help="share of its time that a part may be busy")
    one.add_argument("--p99", type=float, default=100.0, help="milliseconds that the plan keeps")
    one.add_argument("--factor", type=float, default=1.3, help="for the sensitivity: how much larger a cost is")
    one.add_argument("--total", type=float, default=1e9, help="records that are to be kept")
    one.add_argument("--memory", type=float, default=64.0, help="GB that a PostgreSQL has for its indexes")
    one.add_argument("--postgres-cores", type=float, default=8.0, help="processors that a PostgreSQL has")
    one.add_argument("--disk", type=float, default=500.0, help="MB/s that the disk of a PostgreSQL takes, acknowledged")
    one.set_defaults(work=model)


if __name__ == "__main__":
    main()
