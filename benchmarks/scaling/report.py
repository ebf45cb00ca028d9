"""Tables in Markdown: costs, measured beside predicted, what a rate takes, and what records take."""

import argparse
import inspect
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple

from rich.console import Console
from rich.progress import Progress

from benchmarks.scaling import measurement, plan
from benchmarks.scaling.comparison import Comparison, naive
from benchmarks.scaling.costs import Costs, fitted_points
from benchmarks.scaling.measurement import Growth, Measurement, Point
from demur.traffic.database import Database

CONNECTIONS: int = inspect.signature(Database).parameters["max_connections"].default
"""That a gateway opens to PostgreSQL at most."""


GROUP = 64
"""Rows in a commit."""


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


def show_predicted(found: Measurement, costs: Mapping[str, Costs], most_others: float) -> float:
    """Each point beside what the model says of it. Return how many times as long as predicted a p99 is: the median of
    the points that were not fitted, or 1 if there are none."""
    rows, compared = [], []
    with progress() as bar:
        for point in bar.track(found.points):
            told = plan.predicted(point, costs[point.layout], int(found.cores))
            pairs = (told.per_second, point.per_second), (told.p50, point.p50), (told.p99, point.p99)
            fitted = point in fitted_points(found.points, point.layout, most_others)
            compared.append(Comparison(point, told, naive(point, found.points, found.cores), fitted))
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
        there = [one for one in compared if one.fitted is fitted]
        if there:
            errors = zip(*(one.errors for one in there), strict=True)
            middle = ", ".join(f"{plan.typical(one):.0%}" for one in errors)
            what = "whose processor time was fitted" if fitted else "that were not fitted"
            print(f"\nMedian error of {len(there)} points {what}: predictions/s, p50, p99: {middle}.")
    return show_signed_errors([one for one in compared if not one.fitted])


def show_signed_errors(compared: Sequence[Comparison]) -> float:
    """Whether the model errs in one direction, by the number of gateways and hosts, and how a guess without a model
    does. Return how many times as long as predicted a p99 is."""
    if not compared:
        return 1.0
    services = sorted({one.point.service for one in compared})
    groups = {f"{layout}: {gateways}, {hosts}": [one for one in compared if one.point.service == service]
              for service in services for layout, gateways, hosts in [service]}  # fmt: skip
    groups |= {f"all with {number} gateways": [one for one in compared if one.point.gateways == number]
               for number in sorted({one.point.gateways for one in compared})}  # fmt: skip
    rows = []
    for name, there in groups.items():
        errors = [one.errors[0] for one in there]
        guesses = [plan.error(one.naive, one.point.per_second) for one in there if one.naive is not None]
        rows.append([
            name, str(len(there)), str(sum(one > 0 for one in errors)), f"{statistics.median(errors):+.0%}",
            f"{statistics.median(guesses):+.0%}" if guesses else "",
        ])  # fmt: skip
    print(
        "\nPoints that were not fitted. A positive error says that the model promises more than was measured. The naive"
        " guess is what the smallest service gave, times the processors that others left:"
    )
    head = ["gateways, hosts", "points", "promised too much", "median error of predictions/s", "median error, naive"]
    table(head, rows)
    factors = [one.point.p99 / one.told.p99 for one in compared]
    factor = statistics.median(factors)
    print(
        f"\nA measured p99 is {factor:.1f} times the predicted one (median); it is longer in"
        f" {sum(one > 1 for one in factors)} of {len(factors)} points."
    )
    return factor


def show_fleets(fleets: Sequence[plan.Fleet], costs: Costs, options: argparse.Namespace, factor: float) -> None:
    """What each rate takes, and which limits it misses. Nothing of it is measured."""
    print(
        f"\nThe model's: no part busier than {options.most_busy:.0%} in full batches, p99 at most {options.p99:g} ms,"
        f" without spare ones. Expect {factor:.1f} times the p99:"
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
            "; ".join(plan.misses(one, p99=options.p99 / 1000, factor=factor)) or "nothing",
        ]
        for one in fleets
    ]  # fmt: skip
    table([*head, "full first, at predictions/s", "write-ahead log MB/s", "misses"], rows)


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
        fleet = plan.fleet(one.rate, one.rows, dearer, most_busy=most_busy, p99=p99)
        then = fleet.layout
        rows.append([
            part, f"{1000 * told.p50:.0f}, {1000 * told.p99:.0f}", f"{first}, at {room[first]:,.0f}",
            f"{then.gateways}, {then.hosts}, {then.proxies}, {then.postgres_cores:.0f}",
            "; ".join(plan.misses(fleet, p99=p99)) or "nothing",
        ])  # fmt: skip
    table(
        [
            "larger",
            "p50, p99 ms",
            "full first, at",
            "gateways, hosts, proxies, processors of PostgreSQL then",
            "they miss",
        ],
        rows,
    )


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
    if (one := grown.keys) is not None:
        print(
            f"\nAn `Idempotency-Key` of random text, of {one.keys:,}: {one.insert:.1f} µs and {one.wal:,.0f} bytes of"
            f" the log; {one.table:.0f} bytes in the table, {one.primary_key:.0f} in its primary key, which starts with"
            f" the caller's text, and {one.by_record:.0f} in the index by record."
        )


def show_records(grown: Growth, costs: Costs, options: argparse.Namespace) -> None:
    """What so many records take, and from which rate on one PostgreSQL is too small."""
    last, first = grown.marks[-1], grown.marks[0]
    records, cores = options.total, options.postgres_cores
    index = sum(last.indexes.values()) / last.records
    tables = sum(last.tables.values()) / last.records
    spent = last.insert + grown.delete
    keys = grown.keys.bytes_per_key if grown.keys else None
    whole = costs.parts["postgres"].per_row(GROUP, GROUP, GROUP) * 1e6
    rows = [
        ["tables", f"{records * tables / 1e12:.2f} TB"],
        ["indexes", f"{records * index / 1e9:,.0f} GB"],
        ["write-ahead log, all in all", f"{records * last.wal / 1e12:.2f} TB"],
        *([["as many `Idempotency-Key`s, with their indexes", f"{records * keys / 1e12:.2f} TB"]] if keys else []),
        ["Parquet segments", f"{records * grown.segment_bytes / 1e12:.3f} TB"],
        [f"records whose indexes fill {options.memory:g} GB", f"{options.memory * 1e9 / index / 1e6:,.0f} million"],
        [f"an insert at {last.records:,} records beside one at {first.records:,}", f"{last.insert / first.insert:.2f}"],
        ["as above, random ids", f"{last.random_insert / first.random_insert:.2f}"],
        [f"predictions/s that keep {cores:g} processors busy by {options.most_busy:.0%}, COPY of one connection alone",
         f"{options.most_busy * cores * 1e6 / last.insert:,.0f}"],
        [f"as above, all processes of a PostgreSQL under a service, {GROUP} rows in a commit",
         f"{options.most_busy * cores * 1e6 / whole:,.0f}"],
        ["COPY of one connection, where as many are deleted as are written",
         f"{options.most_busy * cores * 1e6 / spent:,.0f}"],
        [f"predictions/s that fill {options.disk:g} MB/s of disk with log and pages by {options.most_busy:.0%}",
         f"{options.most_busy * options.disk * 1e6 / (last.wal + tables + index):,.0f}"],
        ["predictions/s of one processor that writes segments", f"{1e6 / grown.segment:,.0f}"],
    ]  # fmt: skip
    print(f"\n{records:,.0f} records, from what was found at {last.records:,}:")
    table(["what", "figure"], rows)
