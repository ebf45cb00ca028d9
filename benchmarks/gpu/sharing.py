"""One host and two hosts on one device, each a process of its own."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.gpu.forward import inputs, network, runner
from benchmarks.gpu.plan import PLAIN, Plan, Results

START_SECONDS = 300.0


def sharing(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure rows a second of all hosts together."""
    shape, dtype = plan.encoder, plan.dtypes[-1]
    title = f"Hosts on one device, an encoder of {shape.dimensions} dimensions and {shape.layers} layers, {dtype}"
    table = Results(title, ("hosts", "batch", "rows/s of all", "rows/s of each"), words=0)
    batches = plan.batches[-1:] if plan.small else plan.batches
    for hosts in (1, 2):
        for batch, rates in zip(batches, together(plan, hosts, batches), strict=True):
            table.rows.append([hosts, batch, sum(rates), " and ".join(f"{rate:,.0f}" for rate in rates)])
        tick()
    table.rows.sort(key=lambda row: (row[1], row[0]))
    return table


def together(plan: Plan, hosts: int, batches: Sequence[int]) -> list[list[float]]:
    """Return rows a second of each of several processes that run at the same time, by batch."""
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(hosts), context.Queue()
    children = [context.Process(target=_host, args=(plan, batches, barrier, told), daemon=True) for _ in range(hosts)]
    for child in children:
        child.start()
    try:
        found: list[list[float]] = [told.get(timeout=START_SECONDS) for _ in children]
    finally:
        for child in children:
            child.join(timeout=30)
            if child.is_alive():
                child.kill()
    return [list(rates) for rates in zip(*found, strict=True)]


def _host(plan: Plan, batches: Sequence[int], barrier: Any, told: Any) -> None:
    torch.set_num_threads(1)
    run = runner(network(plan.encoder, plan.dtypes[-1], plan.device), PLAIN, {})
    rates = []
    for batch in batches:
        given = inputs(batch, plan.tokens, plan.device)
        with torch.inference_mode():
            for _ in range(3):
                run(given).cpu()
            barrier.wait(timeout=START_SECONDS)
            began, done = time.perf_counter(), 0
            while (spent := time.perf_counter() - began) < 2 * plan.seconds:
                run(given).cpu()
                done += batch
            barrier.wait(timeout=START_SECONDS)
        rates.append(done / spent)
    told.put(rates)
