"""How fast a running service answers: `make run` in one terminal, `make bench-load` in another.

Single requests at several concurrencies and batches of 64, through HTTP, with every prediction committed. The client
runs on the same machine and takes its share of it; read the figures as what two noisy neighbours leave.
"""

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path

import aiohttp
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

CONCURRENCIES = (1, 16, 64)
BATCH = 64


async def measure(
    url: str, path: str, bodies: list[bytes], concurrency: int, seconds: float
) -> tuple[float, list[float]]:
    """Return requests per second and the latencies in milliseconds."""
    latencies: list[float] = []
    stop = time.perf_counter() + seconds
    headers = {"content-type": "application/json"}
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(url, connector=connector, headers=headers) as client:

        async def ask(start: int) -> None:
            at = start
            while (began := time.perf_counter()) < stop:
                async with client.post(path, data=bodies[at % len(bodies)]) as response:
                    await response.read()
                    response.raise_for_status()
                latencies.append((time.perf_counter() - began) * 1000)
                at += concurrency

        began = time.perf_counter()
        await asyncio.gather(*(ask(i) for i in range(concurrency)))
        return len(latencies) / (time.perf_counter() - began), latencies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--data", type=Path, default=Path("var/digits/test.jsonl"))
    parser.add_argument("--seconds", type=float, default=8.0, help="for each line of the table")
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.data.read_text().splitlines()]
    items = [{"model": "digits", "input": row["input"]} for row in rows]
    singles = [json.dumps(item).encode() for item in items]
    batches = [
        json.dumps({"items": (items * 2)[start : start + BATCH]}).encode() for start in range(0, len(items), BATCH)
    ]
    runs = [("/v1/predict", singles, concurrency, 1) for concurrency in CONCURRENCIES]
    runs += [("/v1/predict/batch", batches, concurrency, BATCH) for concurrency in (1, 4)]

    table = Table()
    for column in ("request", "concurrency", "requests/s", "predictions/s", "p50 ms", "p95 ms", "p99 ms"):
        table.add_column(column, justify="left" if column == "request" else "right")
    with Progress(transient=True) as bar:
        task = bar.add_task("asking", total=len(runs))
        for path, bodies, concurrency, size in runs:
            asyncio.run(measure(options.url, path, bodies, concurrency, 1.0))  # warm up
            rate, latencies = asyncio.run(measure(options.url, path, bodies, concurrency, options.seconds))
            cuts = statistics.quantiles(latencies, n=100)
            latency = [f"{cuts[q - 1]:.1f}" for q in (50, 95, 99)]
            table.add_row(path, str(concurrency), f"{rate:,.0f}", f"{rate * size:,.0f}", *latency)
            bar.advance(task)
    Console().print(table)


if __name__ == "__main__":
    main()
