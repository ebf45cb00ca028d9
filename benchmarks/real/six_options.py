"""Probabilities of six options, two of which refuse to answer, by four language models on five tasks."""

from pathlib import Path

import numpy as np

from benchmarks.real.predictions import Predictions, Source, normalised, numbered, one_label

TASKS = {"qa": "MMLU", "rc": "CosmosQA", "ci": "HellaSwag", "drs": "HaluEval dialogue", "ds": "HaluEval summaries"}
MODELS = ("gemma-2-9b-it", "mistral-7b-instruct", "mistral-7b", "phi-2")
REFUSALS = (4, 5)  # E "I don't know", F "None of the above"


def read(folder: Path) -> list[Predictions]:
    with np.load(folder / "mcq_probs.npz") as arrays:
        return [
            Predictions(
                model=f"{model}, {name}",
                rows=one_label(normalised(arrays[f"{task}__{model}"]), arrays[f"{task}__labels"].astype(np.intp)),
                groups=numbered(arrays[f"{task}__{model}"]),
                refusals=REFUSALS,
            )
            for task, name in TASKS.items()
            for model in MODELS
            if f"{task}__{model}" in arrays
        ]


SOURCE = Source(
    name="six options",
    folder="mcq_probs_bluq",
    files=("mcq_probs.npz",),
    origin="mani2001/BLUQ @ 1eddb0f",
    licence='"for research and educational purposes" (README)',
    group="probabilities, to the last digit: a repeated question",
    treatment="float32 sums renormalised in float64",
    read=read,
)
