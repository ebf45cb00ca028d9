"""Probabilities of four answers to questions of medical examinations, by seven language models."""

import csv
import gzip
from pathlib import Path

import numpy as np

from benchmarks.real.predictions import Predictions, Source, normalised, numbered, one_label

OPTIONS = "ABCD"
FILES = {"mistral_medqa_probs.csv.gz": "p_", "medqa_option_logprobs.csv.gz": "lp_"}


def read(folder: Path) -> list[Predictions]:
    return [predictions for predictions, _ in read_named(folder)]


def read_named(folder: Path) -> list[tuple[Predictions, list[str]]]:
    """Each model's rows, and the name of the question that each of them is about."""
    found = []
    for name, prefix in FILES.items():
        with gzip.open(folder / name, "rt", newline="") as file:
            lines = list(csv.DictReader(file))
        for model in dict.fromkeys(line["model"] for line in lines):
            found.append(_of_model(model, [line for line in lines if line["model"] == model], prefix))
    return found


def _of_model(model: str, lines: list[dict[str, str]], prefix: str) -> tuple[Predictions, list[str]]:
    columns = [prefix + option for option in OPTIONS]
    complete = [line for line in lines if all(line[column] for column in columns)]
    values = np.array([[line[column] for column in columns] for line in complete], dtype=np.float64)
    qids = [line["qid"] for line in complete]
    predictions = Predictions(
        model=model,
        rows=one_label(
            normalised(np.exp(values) if prefix == "lp_" else values),
            np.array([OPTIONS.index(line["answer"]) for line in complete], dtype=np.intp),
        ),
        groups=numbered(qids),
        left_out=len(lines) - len(complete),
    )
    return predictions, qids


SOURCE = Source(
    name="medical questions",
    folder="medical_mcq",
    files=tuple(FILES),
    origin="Tharun2908/mistral-medqa-abstention @ f798f41 (mistral), tadsligar/MedQA2026 @ e7a53f9 (others)",
    licence='MIT (mistral), "research and educational use only" (others)',
    group="question (each is there once for a model)",
    treatment="bf16 sums of 0.997 to 1.003 (mistral) and token probabilities of four letters (others) renormalised;"
    " rows with a blank option left out",
    read=read,
)
