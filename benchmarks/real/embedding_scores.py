"""Do scores of embeddings and of logits find errors, and inputs of no class? Tables for docs/evidence/embeddings.md.

python -m benchmarks.real.embedding_scores [--data FOLDER] [--write docs/evidence/embeddings.md]

A small network is trained here on the training part of each data set. What it hands to its last layer is the embedding.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from scipy.special import softmax
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.real.document import with_tables
from benchmarks.real.predictions import Index, numbered
from benchmarks.real.splits import halves
from benchmarks.real.tables import table
from demur.audit.metrics.selective import prr
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import entropy, softmax_response
from demur.uncertainty.correctness_model import CorrectnessRecipe
from demur.uncertainty.deep_knn import NeighbourDistance
from demur.uncertainty.logit_scores import energy, max_logit
from demur.uncertainty.mahalanobis import LEDOIT_WOLF, fit_mahalanobis, fit_relative_mahalanobis
from demur.uncertainty.output import Output

SEED = 20261126
TIMES = 10
WIDTH = 96
RISKS = (0.05, 0.1)
NO_CLASS = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """What the network says about the texts that it was not trained on."""

    data: str
    output: Output
    classes: Index
    """[n], NO_CLASS where none is right."""

    same: Index
    """[n], the same number for the same text."""

    trained: Array
    """[m, d], embeddings of the training rows."""

    trained_classes: Index

    @property
    def correct(self) -> Array:
        """[n], 1 where the most probable class is right."""
        return np.asarray(self.output.probabilities.argmax(axis=1) == self.classes, dtype=np.float64)


def _lines(data: Path, folder: str, file: str) -> list[dict[str, Any]]:
    with gzip.open(data / folder / file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read(data: Path) -> Iterator[Texts]:
    requests = _lines(data, "clinc150_oos", "clinc150.jsonl.gz")
    named = [{**one, "label": None if one["oos"] else one["intent"]} for one in requests]
    yield _predicted("intents, with out of scope", named)
    yield _predicted("intents", [one for one in named if one["label"] is not None])
    yield _predicted("bank requests", _lines(data, "banking77", "banking77.jsonl.gz"))


def _predicted(name: str, lines: Sequence[dict[str, Any]]) -> Texts:
    train = [line for line in lines if line["split"] == "train" and line["label"] is not None]
    rest = [line for line in lines if line["split"] != "train"]
    reading = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TruncatedSVD(300, random_state=SEED),
        StandardScaler(),
    )
    known = reading.fit_transform([line["text"] for line in train])
    network = MLPClassifier((WIDTH,), early_stopping=True, random_state=SEED, max_iter=60)
    network.fit(known, [line["label"] for line in train])
    place = {label: index for index, label in enumerate(network.classes_)}

    def classes(of: Sequence[dict[str, Any]]) -> Index:
        return np.array([place.get(line["label"], NO_CLASS) for line in of], dtype=np.intp)

    def embedded(values: Array) -> Array:
        return np.asarray(np.maximum(values @ network.coefs_[0] + network.intercepts_[0], 0))

    embedding = embedded(reading.transform([line["text"] for line in rest]))
    logits = embedding @ network.coefs_[1] + network.intercepts_[1]
    return Texts(
        data=name,
        output=Output(logits=logits, probabilities=softmax(logits, axis=1), embedding=embedding),
        classes=classes(rest),
        same=numbered([line["text"] for line in rest]),
        trained=embedded(known),
        trained_classes=classes(train),
    )


def scores(texts: Texts, fit: Index) -> dict[str, Array]:
    """[n] each; larger means less sure. Those of embeddings are fitted on the rows that the network was trained on,
    as far as this helps: `deep_knn` and the distances once, for all splits."""
    output = texts.output
    recipe = CorrectnessRecipe()
    model = recipe.fit(output.probabilities[fit], texts.correct[fit], output.probabilities[fit].argmax(axis=1))
    return {
        "softmax_response": softmax_response(output.probabilities),
        "entropy": entropy(output.probabilities),
        "energy": energy(output.logits),
        "max_logit": max_logit(output.logits),
        "correctness": -model.confidence(output.probabilities),
    }


def distances(texts: Texts, rows: Array, classes: Index) -> dict[str, Array]:
    """[n] each, from these rows [m, d] of known classes [m]."""
    embedding = texts.output.needed("embedding")
    near = NeighbourDistance(directions=rows / np.linalg.norm(rows, axis=1, keepdims=True), k=10)
    return {
        "mahalanobis": fit_mahalanobis(rows, classes, shrinkage=LEDOIT_WOLF).distance(embedding),
        "relative_mahalanobis": fit_relative_mahalanobis(rows, classes, shrinkage=LEDOIT_WOLF).distance(embedding),
        "deep_knn": near.distance(embedding),
    }


def answered(correct: Array, u: Array, risk: float) -> float:
    """The largest share of these rows that the score can answer with at most so many wrong."""
    order = np.argsort(u, kind="stable")
    wrong = np.cumsum(1 - correct[order]) / np.arange(1, len(order) + 1)
    fine = np.flatnonzero(wrong <= risk)
    return 0.0 if len(fine) == 0 else float((fine[-1] + 1) / len(order))


def measure(texts: Texts, console: Console) -> list[tuple[str, ...]]:
    found: dict[str, list[tuple[float, ...]]] = {}
    trained = {f"{name}": u for name, u in distances(texts, texts.trained, texts.trained_classes).items()}
    for part in track(halves(texts.same, times=TIMES, seed=SEED), texts.data, console=console, transient=True):
        known = part.fit[texts.classes[part.fit] != NO_CLASS]
        few = distances(texts, texts.output.needed("embedding")[known], texts.classes[known])
        all_scores = {
            **scores(texts, part.fit),
            **{f"{name}, of labelled rows": u for name, u in few.items()},
            **{f"{name}, of training rows": u for name, u in trained.items()},
        }
        correct = texts.correct[part.test]
        none = texts.classes[part.test] == NO_CLASS
        for name, u in all_scores.items():
            here = u[part.test]
            found.setdefault(name, []).append(
                (
                    prr(correct, here),
                    float(roc_auc_score(1 - correct, here)),
                    *(answered(correct, here, risk) for risk in RISKS),
                    float(roc_auc_score(none, here)) if none.any() else np.nan,
                )
            )
    return [(texts.data, name, *_cells(np.array(values))) for name, values in found.items()]


def _cells(values: Array) -> list[str]:
    """Mean, and 5th and 95th percentile, of each column [splits, k]."""
    return [
        "" if np.isnan(column).all() else f"{column.mean():.3f} ({low:.3f} to {high:.3f})"
        for column in values.T
        for low, high in [np.quantile(column, [0.05, 0.95])]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of data sets")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args(arguments)
    absent = [name for name in ("clinc150_oos", "banking77") if not (options.data / name).is_dir()]
    if absent:
        print(f"There is no {' and no '.join(absent)} in {options.data}, so nothing is measured.")
        return 0
    console = Console(stderr=True)
    rows, accuracy = [], []
    for texts in read(options.data):
        accuracy.append((texts.data, f"{len(texts.classes):,}", f"{texts.correct.mean():.1%}"))
        rows += measure(texts, console)
    header = (
        "data",
        "score",
        "PRR",
        "AUROC of errors",
        *(f"answered at {risk:.0%}" for risk in RISKS),
        "AUROC of no class",
    )
    made = {"accuracy": table(("data", "rows", "right"), accuracy), "embeddings": table(header, rows)}
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_tables(document, made), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
