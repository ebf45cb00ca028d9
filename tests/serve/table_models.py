"""Small models of tables, trained at once, and how a configuration names them."""

import asyncio
from functools import cache

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from demur.serve.config.file import Config
from demur.serve.contract.inputs import InputLimits, InvalidRequest
from demur.serve.contract.model import ModelRequest
from demur.serve.contract.reading.inputs import read_inputs
from demur.serve.hosts.kinds import kind_of

LABELS = ("fine", "late", "lost")
TASK = {"kind": "multiclass", "labels": list(LABELS)}
COLUMNS = {
    "age": {"missing": True},
    "job": {"kind": "category", "values": ["clerk", "nurse", "other"]},
    "smoker": "boolean",
    "note": "text",
}


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Rows of mixed columns, some ages missing."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "age": rng.normal(40, 12, rows).round(1),
            "job": rng.choice(["clerk", "nurse", "other"], rows),
            "smoker": rng.random(rows) < 0.3,
            "note": rng.choice(["paid on time", "called twice", "no reply at all"], rows),
        }
    )
    made.loc[::17, "age"] = np.nan
    return made


def truth(table: pd.DataFrame) -> np.ndarray:
    """One of the labels for each row, which follows from the row but for some noise."""
    rng = np.random.default_rng(len(table))
    signal = (table.note == "no reply at all") * 2 + (table.age.fillna(40) > 45) + rng.normal(0, 0.4, len(table))
    return np.array(LABELS)[np.digitize(signal, [0.5, 1.5])]


@cache
def pipeline():
    """A pipeline of mixed columns."""
    table = frame()
    parts = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
        (OneHotEncoder(), ["job"]),
        ("passthrough", ["smoker"]),
        (TfidfVectorizer(), "note"),
    )
    return make_pipeline(parts, LogisticRegression()).fit(table, truth(table))


def records(table: pd.DataFrame) -> list[dict]:
    """The rows as JSON has them."""
    rows = table.astype(object).to_dict("records")
    return [{name: None if cell is None or cell != cell else cell for name, cell in row.items()} for row in rows]


def section(*, task=None, scores=None, **host) -> dict:
    """The settings of such a model."""
    task = task or TASK
    score = "binary_entropy" if task["kind"] == "multilabel" else "softmax_response"
    return {
        "task": task,
        "host": host,
        "scores": scores or [score],
        "confidence": {"score": score},
        "policy": {"kind": "rejection_rate", "rate": 0.2},
    }


def configured(**more):
    """Return a model as the configuration has it."""
    return Config.model_validate({"models": {"table": section(**more)}}).models["table"]


def ask(model, values, *needs, warm=True):
    """Return what a configured model is, its spec and its output for values as a request brings them."""

    async def main():
        loaded = await kind_of(model).load(model, None)
        try:
            inputs = read_inputs(values, loaded.spec, InputLimits(text_characters=1000))
            for one in inputs:
                if isinstance(one, InvalidRequest):
                    raise one
            output = await loaded.run(ModelRequest(inputs=inputs, needs=frozenset(needs or ("probabilities",))))
            trial = ModelRequest(inputs=[loaded.example()], needs=frozenset(("probabilities",)))
            assert not warm or (await loaded.run(trial)).usable().all()
            return loaded, output
        finally:
            await loaded.close()

    return asyncio.run(main())
