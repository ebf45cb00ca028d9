"""demur beside the bare forward pass, both over HTTP and Ray, with their hosts on the same device."""

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.plan import Plan, Results
from benchmarks.serving.models import Shape
from benchmarks.serving.site import Line, Run, Site, in_own_process

WAYS = ("bare", "demur")
BATCH = 64
ROUNDS = 3
POLICY = {"kind": "rejection_rate", "rate": 0.1}
"""One that can be fitted to random weights."""

SCORES = {
    "of logits": ("softmax_response", "entropy"),
    "of embeddings": ("softmax_response", "mahalanobis", "deep_knn"),
}


def serving(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure single predictions and batches, and each way in turns."""
    shape, dtype = plan.encoder, "float32" if plan.small else plan.dtypes[-1]
    title = f"demur beside bare, an encoder of {shape.dimensions} dimensions and {shape.layers} layers, {dtype}"
    columns = ("scores", "batch", "callers", "way", "predictions/s", "p50 ms", "p99 ms", "CPU ms a request")
    table = Results(title, columns, words=1)
    for name, scores in SCORES.items():
        if not plan.small or name == "of embeddings":
            rows, note = in_own_process(_asked, plan, shape, dtype, name, scores)
            table.rows += rows
            table.notes.append(note)
            tick()
    return table


def _asked(plan: Plan, shape: Shape, dtype: str, name: str, scores: tuple[str, ...]) -> tuple[list[list[Any]], str]:
    """The rows of a service with these scores, and where the time of the processor goes."""
    # Ray shows each replica its own GPU as the first
    host = {"device": "cuda" if plan.is_gpu else "cpu", "dtype": dtype, "gpus": 0.4 if plan.is_gpu else 0}
    lines = [Line("encoder", callers) for callers in plan.callers]
    lines += [Line("encoder", callers, BATCH) for callers in plan.callers[:2]]
    with Site(["encoder"], shape=shape, host=host, scores=scores, policy=POLICY) as site:
        site.start(list(WAYS))
        found = {line: _in_turns(site, line, plan) for line in lines}
    rows = [
        [name, line.batch, line.concurrency, way, *_medians(runs)]
        for line, by_way in found.items()
        for way, runs in by_way.items()
    ]
    busiest = lines[len(plan.callers) - 1]
    told = "; ".join(f"{way}: {_by_process(runs)}" for way, runs in found[busiest].items())
    return rows, f"Scores {name}, {busiest.concurrency} callers, CPU ms a request by process. {told}."


def _in_turns(site: Site, line: Line, plan: Plan) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {way: [] for way in WAYS}
    for number in range(2 if plan.small else 1 + ROUNDS):
        for way in WAYS:
            run = site.ask(line, way, 4 * plan.seconds if number else max(0.5, plan.seconds))
            if number:  # the first warms up
                runs[way].append(run)
    return runs


def _medians(runs: list[Run]) -> list[float]:
    rate = statistics.median(run.predictions_per_second for run in runs)
    latencies = [statistics.median(run.seen.milliseconds(percent) for run in runs) for percent in (50, 99)]
    return [rate, *latencies, statistics.median(run.cpu_milliseconds for run in runs)]


def _by_process(runs: list[Run]) -> str:
    names = sorted({name for run in runs for name in run.by_process})
    spent = {name: statistics.median(run.by_process.get(name, 0.0) for run in runs) for name in names}
    return ", ".join(f"{name} {value:.3f}" for name, value in spent.items() if value >= 0.001)
