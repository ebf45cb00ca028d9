"""What an artifact in the shadow costs: milliseconds for a batch of 64 in the quickstart's host, with and without one.

Without Ray and without a database. The hosts take turns, so that what else the machine does falls on all alike; the
quartiles show how much that is. A shadow of the same kind costs its scores and its rule, for the model runs once for
all; one that needs passes with dropout makes the model do them.
"""

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from demur.calibration_store.store import ArtifactStore
from demur.serve.config.file import Config
from demur.serve.configuration import load_config
from demur.serve.contract.inputs import ModelInput
from demur.serve.fitting.fit import fit_model
from demur.serve.hosts.host import Host
from demur.traffic.dataset import read_labelled_file

ROOT = Path(__file__).parent.parent
ROWS = 64
SHADOWS: dict[str, dict[str, Any] | None] = {
    "none": None,
    "another limit": {"policy": {"kind": "rejection_rate", "rate": 0.1}},
    "one score more, of 20 passes with dropout": {
        "scores": ("softmax_response", "entropy", {"mahalanobis": {"shrinkage": 0.05}}, "bald")
    },
}


def clock() -> datetime:
    return datetime.now(UTC)


async def hosts(folder: Path) -> dict[str, Host]:
    """A host for each kind of shadow, each with a store of its own."""
    parts = [sys.executable, str(ROOT / "deploy/models/digits/parts.py"), str(folder)]
    subprocess.run(parts, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a script of our own
    quickstart = load_config(ROOT / "deploy/quickstart.yaml").model_dump()
    quickstart["models"]["digits"]["host"]["checkpoint"] = str(ROOT / "deploy/models/digits")
    made = {}
    for number, (title, changes) in enumerate(SHADOWS.items()):
        quickstart["artifacts"] = str(folder / str(number))
        store = ArtifactStore(quickstart["artifacts"])
        told: dict[str, Any] = {"by": "a benchmark", "why": "", "clock": clock}
        config = Config.model_validate(quickstart)
        store.promote("digits", fitted(config, folder), **told)
        if changes:
            other = {**quickstart, "models": {"digits": {**quickstart["models"]["digits"], **changes}}}
            store.shadow("digits", fitted(Config.model_validate(other), folder), **told)
        made[title] = await Host.started("digits", config.models["digits"], store)
    return made


def fitted(config: Config, folder: Path) -> str:
    data = folder / "calibration.jsonl"
    return fit_model(config, "digits", data, clock=clock, progress=lambda *_: None).name


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1, help="as a replica has them")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    seen: dict[str, list[float]] = {title: [] for title in SHADOWS}
    with tempfile.TemporaryDirectory() as folder:
        made = await hosts(Path(folder))
        values = read_labelled_file(Path(folder) / "test.jsonl").inputs
        inputs: list[ModelInput] = [np.asarray(value, dtype=np.float32)[np.newaxis] for value in values]
        batches = itertools.cycle([inputs[at : at + ROWS] for at in range(0, len(inputs) - ROWS, ROWS)])
        for host in made.values():
            await host.decide(next(batches))
        for _ in track(range(options.repeats), description="deciding", transient=True):
            batch = next(batches)
            for title, host in made.items():
                began = time.perf_counter()
                await host.decide(batch)
                seen[title].append((time.perf_counter() - began) * 1000)
    table = Table("shadow")
    for column in ("ms", "quartiles", "ratio"):
        table.add_column(column, justify="right")
    alone = statistics.median(seen["none"])
    for title, times in seen.items():
        low, middle, high = statistics.quantiles(times, n=4)
        table.add_row(title, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", f"{middle / alone:.2f}")
    Console().print(table)


if __name__ == "__main__":
    asyncio.run(main())
