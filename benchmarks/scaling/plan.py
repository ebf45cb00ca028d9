"""Measured beside predicted, and what a rate of predictions takes: how many of each part, and which is full first."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from benchmarks.scaling.costs import Costs
from benchmarks.scaling.measurement import Point
from benchmarks.scaling.service import BATCH, Layout, Load, Predicted, simulate

SECONDS_OF_A_POINT = 2.0

HALVINGS, MOST_SHARE = 5, 0.95
"""How the number of other programs is searched for: steps, and the largest share of all that runs."""

REQUESTS = 10_000
"""That a simulation of an open system sees, as far as its time allows."""

SECONDS = (1.0, 20.0)
"""The shortest and the longest time of a simulation."""

TRIES = 4

FULL = 0.95
"""A part that is busier than this has no time left."""

FULL_CALL = 0.9 * BATCH.max_size
"""Rows in a call of a host that is about as large as it may be."""

IN_WORDS = {
    "proxy": "proxies are full",
    "gateway": "gateways are full",
    "host": "hosts are full",
    "postgres": "PostgreSQL is full",
}


def predicted(point: Point, costs: Costs, cores: int) -> Predicted:
    """Simulate what was measured. Programs of others, and the rest of Ray, run beside the service on the same
    processors: as many of them as use the processor time that they were seen to use, or that ours left."""
    ours = sum(spent for part, spent in point.spent.items() if part != "ray")
    wanted = min(point.others + point.spent["ray"], cores * point.seconds - ours) / point.seconds
    parts = [*costs.parts]
    shared = {"alone": 1.0, "rest": cores - 1.0} if point.apart else {"all": float(cores)}
    pool_of = {part: "all" if not point.apart else "alone" if part == point.apart else "rest" for part in parts}
    load = Load(rows=point.rows, callers=point.callers, seconds=SECONDS_OF_A_POINT)
    low, high = 0.0, MOST_SHARE
    for _ in range(HALVINGS):
        share = (low + high) / 2
        layout = Layout(
            gateways=point.gateways, hosts=point.hosts, shared=shared, pool_of=pool_of, others=share / (1 - share)
        )
        found = simulate(layout, costs, load)
        if found.busy["others"] < wanted:
            low = share
        else:
            high = share
    return found


@dataclass(frozen=True)
class Fleet:
    """What a rate takes, and what comes of it."""

    rate: float
    """Predictions a second."""

    rows: int
    layout: Layout
    found: Predicted
    first: str
    """The part that is full first as the rate grows."""

    room: float
    """Predictions a second at which it is."""


def rooms(layout: Layout, costs: Costs, rows: int, commit: float) -> dict[str, float]:
    """Predictions a second at which each part is full, by the law of utilisation: calls are full there, and
    commits have a call at least, and no less than now."""
    call = max(BATCH.max_size // rows * rows, BATCH.max_size if rows > BATCH.max_size else 1)
    servers = {
        "proxy": layout.proxies,
        "gateway": layout.gateways,
        "host": layout.hosts,
        "postgres": layout.postgres_cores,
    }
    per_row = {part: costs.parts[part].per_row(rows, call, max(call, round(commit))) for part in servers}
    return {part: servers[part] / per_row[part] for part in servers}


def fleet(rate: float, rows: int, costs: Costs, *, most_busy: float, p99: float, cells: int = 1) -> Fleet:
    """Return the smallest service of which no part is busier than `most_busy` in full batches, and whose p99, in
    seconds, is kept. The simulation says what latency comes of it; a part is added where it is too long. Where that
    does not help, the service without these parts is returned, and `misses` says so."""
    layout = Layout(gateways=1, hosts=1, proxies=1, postgres_cores=1.0)
    room = rooms(layout, costs, rows, commit=BATCH.max_size)
    needed = {part: max(1, ceil(rate / (most_busy * there))) for part, there in room.items()}
    layout = Layout(
        gateways=max(cells, needed["gateway"]), hosts=max(cells, needed["host"]), cells=cells,
        proxies=needed["proxy"], postgres_cores=needed["postgres"],
    )  # fmt: skip
    least = None
    for _ in range(TRIES):
        found = asked(layout, costs, rate, rows)
        cores = max(1, ceil(found.busy["postgres"] / most_busy))
        if cores > layout.postgres_cores:
            layout = replace(layout, postgres_cores=cores)
            continue
        least = least or (layout, found)
        if found.p99 <= p99:
            break
        shares = {"gateways": found.busy["gateway"] / layout.gateways, "hosts": found.busy["host"] / layout.hosts}
        name = max(shares, key=shares.__getitem__)
        layout = replace(layout, **{name: getattr(layout, name) + 1})
    if least and found.p99 > p99:
        layout, found = least
    room = rooms(layout, costs, rows, found.commit)
    first = min(room, key=room.__getitem__)
    return Fleet(rate=rate, rows=rows, layout=layout, found=found, first=first, room=room[first])


def asked(layout: Layout, costs: Costs, rate: float, rows: int) -> Predicted:
    """Simulate so many predictions a second that come at random times."""
    requests = rate / rows
    seconds = min(max(REQUESTS / requests, SECONDS[0]), SECONDS[1])
    return simulate(layout, costs, Load(rows=rows, per_second=requests, seconds=seconds))


def shares(one: Fleet) -> dict[str, float]:
    """How busy each server of a part is, on average."""
    servers = {
        "proxy": one.layout.proxies,
        "gateway": one.layout.gateways,
        "host": one.layout.hosts,
        "postgres": one.layout.postgres_cores,
        "flush": 1,
    }
    return {part: one.found.busy[part] / there for part, there in servers.items()}


def misses(one: Fleet, *, p99: float, factor: float = 1.0) -> list[str]:
    """Say in words which limits a fleet misses, and which parts have no time left in the batches that it makes. A host
    that is always at a call, but at a small one, takes more rows by larger calls. A measured p99 is `factor` times as
    long as a predicted one."""
    told = []
    if one.found.p99 > p99:
        told.append("p99 is too long")
    elif factor * one.found.p99 > p99:
        told.append(f"p99 is too long if it is {factor:.1f} times this one")
    busy = shares(one)
    call = one.found.call
    in_words = (
        IN_WORDS if call >= FULL_CALL else {**IN_WORDS, "host": f"hosts never rest, with {call:.0f} rows in a call"}
    )
    return told + [words for part, words in in_words.items() if busy[part] >= FULL]


def error(predicted: float, measured: float) -> float:
    """How far a prediction lies from what was measured, as a share of that."""
    return predicted / measured - 1


def typical(errors: Sequence[float]) -> float:
    """The median of errors without their sign."""
    return statistics.median(abs(one) for one in errors)
