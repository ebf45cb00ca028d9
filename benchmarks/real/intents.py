"""Which of 150 intents a request has, by a small classifier that is trained here on rows of their own (CLINC150)."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.real.predictions import Index, numbered
from demur.uncertainty.checks import Array

FOLDER, FILE = "clinc150_oos", "clinc150.jsonl.gz"
OUT_OF_SCOPE = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Intents:
    """The `n` requests that the classifier was not trained on."""

    probabilities: Array
    """[n, 150]"""

    classes: Index
    """[n], OUT_OF_SCOPE where none of the intents is right."""

    domains: Index
    """[n], one of ten: that of the most probable intent, which is known when the request comes."""

    texts: Index
    """[n], the same number for the same text."""


def read(data: Path, *, max_iter: int = 200) -> Intents:
    """Train on the requests of the training part that have an intent, and say what comes out for the other parts."""
    with gzip.open(data / FOLDER / FILE, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    train = [line for line in lines if line["split"] == "train" and not line["oos"]]
    rest = [line for line in lines if line["split"] != "train"]
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    known = words.fit_transform([line["text"] for line in train])
    model = LogisticRegression(C=10, max_iter=max_iter).fit(known, [line["intent"] for line in train])
    place = {name: index for index, name in enumerate(model.classes_)}
    domain_of = {line["intent"]: line["domain"] for line in train}
    probabilities = np.asarray(model.predict_proba(words.transform([line["text"] for line in rest])))
    return Intents(
        probabilities=probabilities,
        classes=np.array([place.get(line["intent"], OUT_OF_SCOPE) for line in rest], dtype=np.intp),
        domains=numbered([domain_of[model.classes_[first]] for first in probabilities.argmax(axis=1)]),
        texts=numbered([line["text"] for line in rest]),
    )
