"""Whether a sentence is simple or complex, by five mBERTs, each on the fold that it was not trained on."""

import csv
import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.real.predictions import Predictions, Source, normalised, numbered, one_label

LABELS = ("complex", "simple")


def read(folder: Path) -> list[Predictions]:
    with gzip.open(folder / "mbert_fold_predictions.csv.gz", "rt", newline="") as file:
        lines = list(csv.DictReader(file))
    rows = one_label(
        normalised([[line[f"p_{label}"] for label in LABELS] for line in lines]),
        np.array([LABELS.index(line["label"]) for line in lines], dtype=np.intp),
    )
    texts, folds = numbered([line["text"] for line in lines]), numbered([line["fold"] for line in lines])
    whole = Predictions(model="mBERT, fold against the others", rows=rows, groups=texts, folds=folds)
    alone = [
        replace(whole.only(folds == fold), model=f"mBERT, fold {fold} alone", folds=None) for fold in np.unique(folds)
    ]
    return [whole, *alone]


SOURCE = Source(
    name="readability",
    folder="readability",
    files=("mbert_fold_predictions.csv.gz",),
    origin="Nouran-Khallaf/To-Predict-or-Not-to-Predict @ 76b17b3, on sentences of tareknaous/readme",
    licence="predictions: empty LICENSE file; ReadMe++: MIT, for non-commercial purposes by its README",
    group="text",
    treatment="sums off by 1e-6 renormalised; a text that is in two folds is not used to calibrate for either",
    read=read,
)
