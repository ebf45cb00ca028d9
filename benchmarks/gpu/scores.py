"""Scores made on the device beside the same scores in NumPy, by the classifier that a host runs."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.plan import Plan, Results, timed
from benchmarks.serving.models import LABELS, encoder, texts
from demur.serve.contract.model import DeviceScore
from demur.serve.hosts.classifier.device_scores import device_score
from demur.serve.hosts.classifier.model import Classifier
from demur.uncertainty.deep_knn import DeepKnn
from demur.uncertainty.logit_scores import Energy
from demur.uncertainty.mahalanobis import fit_mahalanobis, fit_relative_mahalanobis
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import Formula, Score


def scores(plan: Plan, tick: Callable[[], None]) -> Results:
    """Measure a batch without a score, with one in NumPy, and with the same one on the device."""
    columns = ("score", "batch", "no score, ms", "in NumPy, ms", "on the device, ms", "largest difference")
    shape = plan.encoder
    title = f"Scores of an encoder of {shape.dimensions} dimensions and {shape.layers} layers, from texts to scores"
    table = Results(title, columns, words=1)
    table.notes.append(
        "The largest difference is relative to the largest score. Dropout draws anew in each run, so its scores have"
        " none. Scores of logits have nothing on the device: logits leave it anyway."
    )
    with tempfile.TemporaryDirectory() as folder:
        encoder(Path(folder), shape)
        classifier = Classifier.of_checkpoint(folder, device=plan.device, mc_passes=plan.passes)
        measured = fitted(plan, shape.dimensions)
        for batch in plan.batches:
            asked = texts(batch, 0)
            nothing = timed(lambda asked=asked: classifier.run(asked, frozenset()), plan)  # type: ignore[misc]
            for name, score in measured.items():
                table.rows.append([name, batch, nothing, *_compared(plan, classifier, asked, score)])
            tick()
    return table


def fitted(plan: Plan, width: int) -> dict[str, Score]:
    """Return scores that were fitted on random embeddings."""
    found: dict[str, Score] = {"softmax_response": Formula(name="softmax_response"), "energy": Energy()}
    for at, rows in enumerate(plan.fitted_rows):
        rng = np.random.default_rng(0)
        embedding, classes = rng.normal(size=(rows, width)), rng.integers(len(LABELS), size=rows)
        if at == 0:
            found["mahalanobis"] = fit_mahalanobis(embedding, classes, shrinkage=0.05)
            found["relative_mahalanobis"] = fit_relative_mahalanobis(embedding, classes, shrinkage=0.05)
        output = Output.from_logits(np.zeros((rows, len(LABELS))), embedding=embedding)
        labelled = LabelledOutput.of_classes(output, classes)
        found[f"deep_knn, {rows:,} rows"] = DeepKnn().fit(labelled, np.ones(rows))
    for name in ("mc_entropy", "bald"):
        found[f"{name}, {plan.passes} passes"] = Formula(name=name)
    return found


def _compared(plan: Plan, classifier: Classifier, asked: list[str], score: Score) -> list[Any]:
    def in_numpy() -> Any:
        return score.of(classifier.run(asked, score.needs))

    made = device_score("benchmark", score, classifier.device)
    if made is None:
        return [timed(in_numpy, plan), None, None]

    def there(made: DeviceScore = made) -> Any:
        return made.of(classifier.run(asked, frozenset(), [made]))

    difference = None
    if made.part == "embedding":
        reference = in_numpy()
        difference = float(np.abs(there() - reference).max() / np.abs(reference).max())
    return [timed(in_numpy, plan), timed(there, plan), difference]
