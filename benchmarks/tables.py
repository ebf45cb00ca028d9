"""Rows of a table per second: how fast they are read at the door, and how fast each kind of model predicts them.

python -m benchmarks.tables [--rows 2000] [--seconds 2]
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import skops.io
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from demur.serve.config.file import Config
from demur.serve.contract.inputs import InputLimits, InvalidRequest
from demur.serve.contract.model import Model, ModelRequest
from demur.serve.contract.reading.inputs import read_inputs
from demur.serve.hosts.kinds import kind_of
from demur.uncertainty.output import Need

BATCHES = (1, 1024)
NUMBERS = [f"n{at}" for at in range(18)]
WANTED: frozenset[Need] = frozenset(("probabilities",))


def table(rows: int) -> pd.DataFrame:
    """Eighteen numbers and two categories."""
    rng = np.random.default_rng(0)
    made = pd.DataFrame(rng.normal(size=(rows, len(NUMBERS))), columns=NUMBERS)
    return made.assign(job=rng.choice(["clerk", "nurse", "other"], rows), city=rng.choice(["Bonn", "Graz"], rows))


def save_models(rows: pd.DataFrame, folder: Path) -> dict[str, str]:
    """Train a model of each kind, and return the files."""
    answer = (rows.n0 + (rows.job == "nurse") > 0.5).astype(int)
    coded = rows.assign(job=rows.job.astype("category"), city=rows.city.astype("category"))
    parts = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["job", "city"]))
    files = {kind: str(folder / name) for kind, name in FILES.items()}
    skops.io.dump(make_pipeline(parts, LogisticRegression()).fit(rows, answer), files["sklearn"])
    xgboost.XGBClassifier(enable_categorical=True).fit(coded, answer).save_model(files["xgboost"])
    lightgbm.LGBMClassifier(verbose=-1).fit(coded, answer).booster_.save_model(files["lightgbm"])
    return files


FILES = {"sklearn": "model.skops", "xgboost": "model.ubj", "lightgbm": "model.txt"}


async def loaded(kind: str, file: str) -> Model:
    """Return the hosted model of a file."""
    settings = {
        "task": {"kind": "binary", "labels": ["0", "1"]},
        "host": {"kind": kind, "file": file},
        "scores": ["softmax_response"],
        "confidence": {"score": "softmax_response"},
        "policy": {"kind": "rejection_rate", "rate": 0.1},
    }
    model = Config.model_validate({"models": {"table": settings}}).models["table"]
    return await kind_of(model).load(model, None)


async def rate(work: Callable[[], Awaitable[Any]], rows: int, seconds: float) -> float:
    """Return rows per second, the best of three spans of this length."""
    await work()
    best = 0.0
    for _ in range(3):
        began, done = time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < seconds:
            await work()
            done += rows
        best = max(best, done / spent)
    return best


async def measure(rows: int, seconds: float) -> None:
    """Print a line for each kind and size of batch."""
    limits, sample = InputLimits(text_characters=1000), table(rows)
    with tempfile.TemporaryDirectory() as folder:
        files = save_models(sample, Path(folder))
        print("| kind | rows in a batch | read, rows/s | predicted, rows/s |\n|---|---|---|---|")
        for kind, file in files.items():
            model = await loaded(kind, file)
            for size in BATCHES:
                values = sample[:size].to_dict("records")

                async def read(values: Any = values, model: Model = model) -> list[Any]:
                    return read_inputs(values, model.spec, limits)

                inputs = await read()
                assert not any(isinstance(one, InvalidRequest) for one in inputs)
                asked = ModelRequest(inputs=inputs, needs=WANTED)

                async def predict(asked: ModelRequest = asked, model: Model = model) -> Any:
                    return await model.run(asked)

                told = await rate(read, size, seconds), await rate(predict, size, seconds)
                print(f"| `{kind}` | {size:,} | {told[0]:,.0f} | {told[1]:,.0f} |", flush=True)
            await model.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=2.0)
    told = parser.parse_args()
    asyncio.run(measure(told.rows, told.seconds))
