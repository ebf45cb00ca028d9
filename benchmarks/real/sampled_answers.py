"""Nine sampled answers of a language model to each of 721 questions of medical examinations."""

import csv
import gzip
from pathlib import Path

import numpy as np

from benchmarks.real.predictions import Index, numbered
from demur.uncertainty.checks import Array
from demur.uncertainty.options import sample_frequency_scores

FOLDER, FILE = "medical_mcq", "medqa_sampled_runs.csv.gz"
OPTIONS = ("A", "B", "C", "D")
MODELS = ("qwen25_32b", "olmo3_7b")
"""One that is mostly right and one that is not."""


def read(data: Path, model: str) -> tuple[Array, Index, Index]:
    """Scores [n, 4] by share of the answers, the index [n] of the right option, and the number [n] of the question."""
    with gzip.open(data / FOLDER / FILE, "rt", newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["model"] == model]
    runs = [name for name in lines[0] if name.startswith("t0.")]
    answers = [[line[run] or None for run in runs] for line in lines]
    return (
        np.stack([sample_frequency_scores(row, OPTIONS) for row in answers]),
        np.array([OPTIONS.index(line["answer"]) for line in lines], dtype=np.intp),
        numbered([line["qid"] for line in lines]),
    )
