"""demur at a steady pace for minutes: are latency and memory flat, and what does a record take on disk?

And does anybody notice when another artifact of the same model is promoted, every `--reload-every` seconds?
"""

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.serving.client import Load, Seen, ask
from benchmarks.serving.site import Line, Site

WINDOW_SECONDS = 30.0
AROUND_SECONDS = 3.0
"""How long before and after a promotion counts as during it: hosts look for one every two seconds."""

COUNTED_SECONDS = 8.0
"""Until counts have come from the gateway to where Prometheus finds them."""


@dataclass
class Watched:
    """What was seen of the service from outside while it was asked."""

    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """MB of each process over time, by what it is."""

    promoted: list[float] = field(default_factory=list)
    """Seconds from the start."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--per-second", type=float, default=1000.0, help="predictions")
    parser.add_argument("--batch", type=int, default=1, help="predictions in a request")
    parser.add_argument("--concurrency", type=int, default=64, help="connections")
    parser.add_argument("--reload-every", type=float, default=60.0, help="seconds between promotions")
    options = parser.parse_args()
    line = Line("digits", options.concurrency, options.batch)
    with Site(["digits"]) as site:
        site.start(["demur"])
        site.ask(line, "demur", 3.0)  # warms up
        before = size(site)
        commits = site.commits()
        with watched(site, options.reload_every) as what:
            load = Load(
                site.url(line, "demur"), site.bodies(line, "demur"), line.concurrency, options.minutes * 60,
                per_second=options.per_second / options.batch,
            )  # fmt: skip
            seen = ask(load)
        tell(seen, what, options.batch, before, size(site))
        time.sleep(COUNTED_SECONDS)
        tell_commits(commits, site.commits())


@contextmanager
def watched(site: Site, reload_every: float) -> Iterator[Watched]:
    what, stop, began = Watched(), threading.Event(), time.monotonic()

    def look() -> None:
        while not stop.wait(2.0):
            for name, megabytes in site.memory().items():
                what.memory.setdefault(name, []).append((time.monotonic() - began, megabytes))

    def promote() -> None:
        turn = 0
        while not stop.wait(reload_every):
            what.promoted.append(time.monotonic() - began)
            site.promote(turn % 2)
            turn += 1

    site.second_artifact()
    threads = [threading.Thread(target=job, daemon=True) for job in (look, promote)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    yield what
    stop.set()
    for thread in threads:
        thread.join()


def size(site: Site) -> tuple[int, int]:
    """Records, and bytes of the whole database."""
    with psycopg.connect(site.postgres.dsn) as connection:
        connection.execute("checkpoint")
        row = connection.execute(
            "select (select count(*) from records), pg_database_size(current_database())"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def tell(seen: Seen, what: Watched, batch: int, before: tuple[int, int], after: tuple[int, int]) -> None:
    console = Console(width=120)
    windows = Table("minutes", "predictions/s", "p50 ms", "p95 ms", "p99 ms")
    ends = np.arange(0, seen.seconds, WINDOW_SECONDS)
    for start in ends:
        there = (seen.ends >= start) & (seen.ends < start + WINDOW_SECONDS)
        if there.sum() < 10:
            continue
        shown = np.percentile(seen.latencies[there], [50, 95, 99]) * 1000
        rate = there.sum() * batch / min(WINDOW_SECONDS, seen.seconds - start)
        windows.add_row(f"{start / 60:.1f}", f"{rate:,.0f}", *(f"{value:.1f}" for value in shown))
    console.print(windows)

    near = np.zeros(len(seen.ends), dtype=bool)
    for at in what.promoted:
        near |= np.abs(seen.ends - at) <= AROUND_SECONDS
    if near.any():
        during, else_ = (np.percentile(seen.latencies[part], 99) * 1000 for part in (near, ~near))
        console.print(f"{len(what.promoted)} promotions; p99 within {AROUND_SECONDS:g} s of them: {during:.1f} ms")
        console.print(f"p99 at other times: {else_:.1f} ms; ratio {during / else_:.2f}")
    memory = Table("process", "MB at first", "MB at last", "MB an hour, by the second half")
    for name, points in sorted(what.memory.items()):
        times, megabytes = np.array(points).T
        later = times > times.max() / 2
        slope = np.polyfit(times[later], megabytes[later], 1)[0] * 3600 if later.sum() > 2 else float("nan")
        memory.add_row(name, f"{megabytes[0]:.0f}", f"{megabytes[-1]:.0f}", f"{slope:+.1f}")
    console.print(memory)
    records = after[0] - before[0]
    console.print(
        f"statuses: {seen.statuses}; records: {records:,}; on disk: {(after[1] - before[1]) / records:,.0f} bytes each"
    )


def tell_commits(before: dict[float, float], after: dict[float, float]) -> None:
    """Of the transactions in between, as far as the bounds of the histogram tell."""
    bounds = sorted(after)
    counts = np.array([after[bound] - before.get(bound, 0.0) for bound in bounds])
    told = [f"p{q} at most {1000 * bounds[int(np.argmax(counts >= counts[-1] * q / 100))]:g} ms" for q in (50, 95, 99)]
    print(f"{counts[-1]:,.0f} commits; {', '.join(told)}")


if __name__ == "__main__":
    main()
