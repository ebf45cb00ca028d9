"""An audit of exported records on a Ray cluster: Ray Data reads and measures the parts, wherever there is room."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from demur.audit.ledger.from_parquet import LedgerParts
from demur.audit.report.in_parts import Everywhere, folded, measured
from demur.audit.report.resamples import Progress, unheard

T = TypeVar("T")

RUNS_PER_CORE = 4
"""So many runs of parts for each core: what takes longer on one is made up for on others."""


class RayFailed(RuntimeError):
    """Parts of an audit could not be measured on Ray. The message says what the first of them failed with."""


def on_ray(parts: LedgerParts, *, progress: Progress = unheard) -> Everywhere:
    """Measure runs of consecutive parts, each run by one task, and put together what they found, in order of time.

    Ray must have been started or joined (`ray.init`), and its workers must see the URL of the parts. What parts come to
    is added in order of time whatever is done first: the same runs give the same floats.
    """
    import ray
    from ray.exceptions import RayError

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    runs = _runs(len(parts.ranges), cores() * RUNS_PER_CORE)

    def everywhere(measure: Callable[[Any], T], together: Callable[[Sequence[T]], T]) -> T | None:
        if not runs:
            return None
        ray.data.DataContext.get_current().enable_progress_bars = False
        todo = ray.data.from_items([{"run": at} for at in range(len(runs))], override_num_blocks=len(runs))
        done = todo.map_batches(_Task(parts, runs, measure, together), batch_size=1, batch_format="numpy")
        found: dict[int, T | None] = {}
        try:
            for row in done.iter_rows():
                found[row["run"]] = row["found"]
                progress(len(found), len(runs))
        except RayError as error:
            raise RayFailed(f"a part could not be measured on Ray: {' '.join(str(error).split())[-500:]}") from error
        return folded((one for _, one in sorted(found.items()) if one is not None), together)

    return everywhere


def cores() -> int:
    """Return the processor cores of the whole cluster."""
    import ray

    return max(1, int(ray.cluster_resources().get("CPU", 1)))


class RayCluster:
    """The Ray that was started or joined, as `demur.serve.jobs.reports.making` takes it."""

    def cores(self) -> int:
        return cores()

    def measured(self, parts: LedgerParts, progress: Progress) -> Everywhere:
        return on_ray(parts, progress=progress)


class _Task:
    """Measures a run of parts, one after the other."""

    def __init__(
        self,
        parts: LedgerParts,
        runs: Sequence[range],
        measure: Callable[[Any], Any],
        together: Callable[[Sequence[Any]], Any],
    ) -> None:
        self._parts = parts
        self._runs = runs
        self._measure = measure
        self._together = together

    def __call__(self, batch: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        found = np.empty(len(batch["run"]), dtype=object)
        for place, run in enumerate(batch["run"].tolist()):
            each = (one for at in self._runs[run] for one in measured(self._parts.read(at), self._measure))
            found[place] = folded(each, self._together)
        return {"run": batch["run"], "found": found}


def _runs(n: int, most: int) -> list[range]:
    """`n` parts in at most so many runs of nearly one length."""
    many = min(n, most)
    return [range(at * n // many, (at + 1) * n // many) for at in range(many)]
