"""Tables in Markdown: costs, measured beside predicted, what a rate takes, and what records take."""

import argparse
import inspect
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple

from rich.console import Console
from rich.progress import Progress

from benchmarks.scaling import measurement, plan
from benchmarks.scaling.costs import Costs, fitted_points
from benchmarks.scaling.measurement import Growth, Measurement, Point
from demur.traffic.database import Database

CONNECTIONS: int = inspect.signature(Database).parameters["max_connections"].default
"""That a gateway opens to PostgreSQL at most."""


def say(told: str) -> None:
    """Show progress beside the tables."""
    print(f"{time.strftime('%H:%M:%S')} {told}", file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def show_points(points: Sequence[Point]) -> None:
    """Throughput, latencies, and milliseconds of processor time of each part for a request."""
    head = ["layout", "gateways, hosts", "apart", "rows", "callers", "predictions/s", "p50, p99 ms"]
    rows = [
        [
            one.layout, f"{one.gateways}, {one.hosts}", one.apart, str(one.rows), str(one.callers),
            f"{one.per_second:,.0f}", f"{1000 * one.p50:.0f}, {1000 * one.p99:.0f}",
            *(f"{1000 * one.spent[part] / one.requests:.2f}" for part in measurement.PARTS),
            f"{one.others / one.seconds:.1f}",
        ]
        for one in points
    ]  # fmt: skip
    table([*head, *(f"{part}, ms" for part in measurement.PARTS), "processors that others used"], rows)


def progress() -> Progress:
    """A bar beside the tables."""
    return Progress(console=Console(stderr=True), transient=True)


def show_costs(costs: Mapping[str, Costs]) -> None:
    """Microseconds of processor time, as least squares found them."""
    print("\nWhat each part pays, in microseconds of processor time:")
    rows = [
        [layout, part, *(f"{1e6 * value:,.0f}" for value in astuple(cost))]
        for layout, all_parts in costs.items()
        for part, cost in all_parts.parts.items()
    ]
    table(["layout", "part", "a request", "a prediction", "a call of a host", "a commit"], rows)
    for layout, one in costs.items():
        print(
            f"\n{layout}: the rest of Ray uses {one.background:.2f} processors; a piece of work varies by"
            f" {one.cv:.2f} of its mean; a flush takes {1000 * one.flush_seconds:.2f} ms; {one.wal_bytes:,.0f} bytes of"
            " the write-ahead log for a prediction."
        )


def show_predicted(found: Measurement, costs: Mapping[str, Costs], most_others: float) -> None:
    """Each point beside what the model says of it."""
    rows, errors = [], []
    with progress() as bar:
        for point in bar.track(found.points):
            told = plan.predicted(point, costs[point.layout], int(found.cores))
            pairs = (told.per_second, point.per_second), (told.p50, point.p50), (told.p99, point.p99)
            fitted = point in fitted_points(found.points, point.layout, most_others)
            errors.append((fitted, *(plan.error(*one) for one in pairs)))
            rows.append([
                point.layout, f"{point.gateways}, {point.hosts}", point.apart, str(point.rows), str(point.callers),
                f"{point.others / point.seconds:.1f}",
                *(f"{scale * measured:,.0f} / {scale * said:,.0f} ({plan.error(said, measured):+.0%})"
                  for (said, measured), scale in zip(pairs, (1, 1000, 1000), strict=True)),
                "yes" if fitted else "",
            ])  # fmt: skip
    print("\nMeasured / predicted (error):")
    head = ["layout", "gateways, hosts", "apart", "rows", "callers", "others", "predictions/s", "p50 ms", "p99 ms"]
    table([*head, "its processor time was fitted"], rows)
    for fitted in (True, False):
        there = [one[1:] for one in errors if one[0] is fitted]
        if there:
            middle = (f"{plan.typical([one[at] for one in there]):.0%}" for at in range(3))
            what = "whose processor time was fitted" if fitted else "that were not fitted"
            print(f"\nMedian error of {len(there)} points {what}: predictions/s, p50, p99: {', '.join(middle)}.")


def show_fleets(fleets: Sequence[plan.Fleet], costs: Costs, options: argparse.Namespace) -> None:
    """What each rate takes. Nothing of it is measured."""
    print(
        f"\nThe model's: no part busier than {options.most_busy:.0%} in full batches, p99 at most {options.p99:g} ms,"
        " without spare ones:"
    )
    head = [
        "predictions/s",
        "in a request",
        "cells",
        "gateways",
        "hosts",
        "proxies",
        "processors of PostgreSQL",
        "connections",
    ]
    head += ["rows in a call", "commits/s", "p50, p99 ms", "gateway", "host", "PostgreSQL", "log flushing"]
    rows = [
        [
            f"{one.rate:,.0f}", str(one.rows), str(one.layout.cells),
            str(one.layout.gateways), str(one.layout.hosts), str(one.layout.proxies),
            f"{one.layout.postgres_cores:.0f}", str(CONNECTIONS * one.layout.gateways), f"{one.found.call:.0f}",
            f"{one.found.per_second / one.found.commit:,.0f}",
            f"{1000 * one.found.p50:.0f}, {1000 * one.found.p99:.0f}",
            *(f"{plan.shares(one)[part]:.0%}" for part in ("gateway", "host", "postgres", "flush")),
            f"{one.first}, at {one.room:,.0f}", f"{one.rate * costs.wal_bytes / 1e6:.1f}",
        ]
        for one in fleets
    ]  # fmt: skip
    table([*head, "full first, at predictions/s", "write-ahead log MB/s"], rows)


def show_sensitivity(one: plan.Fleet, costs: Costs, factor: float, *, most_busy: float, p99: float) -> None:
    """What changes where one cost is larger: in the service as it is, and in how many it takes then."""
    print(
        f"\n{one.rate:,.0f} predictions a second, {one.rows} in a request, where one cost is {factor - 1:.0%} larger:"
    )
    rows = []
    for part in ("nothing", "proxy", "gateway", "host", "postgres", "flush"):
        dearer = costs if part == "nothing" else costs.larger(part, factor)
        told = plan.asked(one.layout, dearer, one.rate, one.rows)
        room = plan.rooms(one.layout, dearer, one.rows, told.commit)
        first = min(room, key=room.__getitem__)
        then = plan.fleet(one.rate, one.rows, dearer, most_busy=most_busy, p99=p99).layout
        rows.append([
            part, f"{1000 * told.p50:.0f}, {1000 * told.p99:.0f}", f"{first}, at {room[first]:,.0f}",
            f"{then.gateways}, {then.hosts}, {then.proxies}, {then.postgres_cores:.0f}",
        ])  # fmt: skip
    table(["larger", "p50, p99 ms", "full first, at", "gateways, hosts, proxies, processors of PostgreSQL then"], rows)


def show_growth(grown: Growth) -> None:
    """What was found at each size."""
    print(f"\nPostgreSQL with shared_buffers of {grown.shared_buffers}, 64 rows in a commit; µs are processor time:")
    rows = [
        [
            f"{one.records:,}", f"{one.insert:.1f}", f"{one.wal:,.0f}", f"{one.random_insert:.1f}",
            f"{one.random_wal:,.0f}", f"{one.look_up:.0f}", f"{sum(one.tables.values()) / one.records:,.0f}",
            f"{sum(one.indexes.values()) / one.records:,.0f}", f"{sum(one.indexes.values()) / 1e6:,.0f}",
        ]
        for one in grown.marks
    ]  # fmt: skip
    head = ["records", "insert µs", "log, bytes", "insert µs, random ids", "log, bytes", "look-up by id µs"]
    table([*head, "tables, bytes/record", "indexes, bytes/record", "indexes, MB"], rows)
    print(
        f"\nA deletion with its vacuum: {grown.delete:.1f} µs and {grown.delete_wal:,.0f} bytes of the log for a"
        f" record. A Parquet segment: {grown.segment:.1f} µs and {grown.segment_bytes:,.0f} bytes for a record."
        f" The disk took {grown.disk / 1e6:,.0f} MB/s."
    )


def show_records(grown: Growth, options: argparse.Namespace) -> None:
    """What so many records take, and from which rate on one PostgreSQL is too small."""
    last, first = grown.marks[-1], grown.marks[0]
    records, cores = options.total, options.postgres_cores
    index = sum(last.indexes.values()) / last.records
    tables = sum(last.tables.values()) / last.records
    spent = last.insert + grown.delete
    rows = [
        ["tables", f"{records * tables / 1e12:.2f} TB"],
        ["indexes", f"{records * index / 1e9:,.0f} GB"],
        ["write-ahead log, all in all", f"{records * last.wal / 1e12:.2f} TB"],
        ["Parquet segments", f"{records * grown.segment_bytes / 1e12:.3f} TB"],
        [f"records whose indexes fill {options.memory:g} GB", f"{options.memory * 1e9 / index / 1e6:,.0f} million"],
        [f"an insert at {last.records:,} records beside one at {first.records:,}", f"{last.insert / first.insert:.2f}"],
        ["as above, random ids", f"{last.random_insert / first.random_insert:.2f}"],
        [f"predictions/s that keep {cores:g} processors of PostgreSQL busy by {options.most_busy:.0%}, COPY alone",
         f"{options.most_busy * cores * 1e6 / last.insert:,.0f}"],
        ["as above, where as many are deleted as are written", f"{options.most_busy * cores * 1e6 / spent:,.0f}"],
        [f"predictions/s that fill {options.disk:g} MB/s of disk with log and pages by {options.most_busy:.0%}",
         f"{options.most_busy * options.disk * 1e6 / (last.wal + tables + index):,.0f}"],
        ["predictions/s of one processor that writes segments", f"{1e6 / grown.segment:,.0f}"],
    ]  # fmt: skip
    print(f"\n{records:,.0f} records, from what was found at {last.records:,}:")
    table(["what", "figure"], rows)
