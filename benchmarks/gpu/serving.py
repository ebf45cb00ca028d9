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
    shape, dtype = plan.shapes[min(1, len(plan.shapes) - 1)], "float32" if plan.small else plan.dtypes[-1]
    title = f"demur beside bare, an encoder of {shape.dimensions} dimensions and {shape.layers} layers, {dtype}"
    columns = ("scores", "batch", "callers", "way", "predictions/s", "p50 ms", "p99 ms", "CPU ms a request")
    table = Results(title, columns, words=1)
    for name, scores in SCORES.items():
        if not plan.small or name == "of embeddings":
            table.rows += in_own_process(_asked, plan, shape, dtype, name, scores)
            tick()
    return table


def _asked(plan: Plan, shape: Shape, dtype: str, name: str, scores: tuple[str, ...]) -> list[list[Any]]:
    """The rows of a service with these scores."""
    # Ray shows each replica its own GPU as the first
    host = {"device": "cuda" if plan.is_gpu else "cpu", "dtype": dtype, "gpus": 0.4 if plan.is_gpu else 0}
    lines = [Line("encoder", callers) for callers in plan.callers]
    lines += [Line("encoder", callers, BATCH) for callers in plan.callers[:2]]
    with Site(["encoder"], shape=shape, host=host, scores=scores, policy=POLICY) as site:
        site.start(list(WAYS))
        return [
            [name, line.batch, line.concurrency, way, *_medians(runs)]
            for line in lines
            for way, runs in _in_turns(site, line, plan).items()
        ]


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
