"""One host and two hosts on one device, each a process of its own."""

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.gpu.forward import PLAIN, inputs, network, runner
from benchmarks.gpu.plan import Plan, Results

START_SECONDS = 300.0


def sharing(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure rows a second of all hosts together."""
    shape, dtype = plan.shapes[min(1, len(plan.shapes) - 1)], plan.dtypes[-1]
    title = f"Hosts on one device, an encoder of {shape.dimensions} dimensions and {shape.layers} layers, {dtype}"
    table = Results(title, ("hosts", "batch", "rows/s of all", "rows/s of each"), words=0)
    for batch in plan.batches[1:]:
        for hosts in (1, 2):
            rates = together(plan, hosts, batch)
            table.rows.append([hosts, batch, sum(rates), " and ".join(f"{rate:,.0f}" for rate in rates)])
            tick()
        if plan.small:
            break
    return table


def together(plan: Plan, hosts: int, batch: int) -> list[float]:
    """Return rows a second of each of several processes that run at the same time."""
    context = multiprocessing.get_context("spawn")
    barrier, told = context.Barrier(hosts), context.Queue()
    children = [context.Process(target=_host, args=(plan, batch, barrier, told), daemon=True) for _ in range(hosts)]
    for child in children:
        child.start()
    try:
        return [told.get(timeout=START_SECONDS) for _ in children]
    finally:
        for child in children:
            child.join(timeout=30)
            if child.is_alive():
                child.kill()


def _host(plan: Plan, batch: int, barrier: Any, told: Any) -> None:
    torch.set_num_threads(1)
    shape, dtype = plan.shapes[min(1, len(plan.shapes) - 1)], plan.dtypes[-1]
    run = runner(network(shape, dtype, plan.device), PLAIN, {})
    given = inputs(batch, plan.tokens, plan.device)
    with torch.inference_mode():
        for _ in range(3):
            run(given).cpu()
        barrier.wait(timeout=START_SECONDS)
        began, done = time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < 2 * plan.seconds:
            run(given).cpu()
            done += batch
    told.put(done / spent)
