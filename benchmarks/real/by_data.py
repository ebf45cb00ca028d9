"""Calibrators beside each other, data set by data set, with intervals over splits: a table for
docs/evidence/correctness.md.

python -m benchmarks.real.by_data [--data FOLDER] [--write docs/evidence/correctness.md]
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.real.confidence import right
from benchmarks.real.correctness import measured
from benchmarks.real.one_table import options_of, put
from benchmarks.real.predictions import Predictions, Source
from benchmarks.real.sources import SOURCES
from benchmarks.real.splits import halves
from benchmarks.real.tables import table
from demur.uncertainty.beta import Beta
from demur.uncertainty.calibrators import CalibratorRecipe, evidence, fit_calibrator
from demur.uncertainty.checks import Array
from demur.uncertainty.class_calibration import VectorScaling
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.correctness_calibrator import Correctness
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.venn_abers import VennAbers

TIMES = 5
"""Random halves. The splits share rows, so their interval describes them and is no interval of confidence."""

CALIBRATORS: Mapping[str, CalibratorRecipe | None] = {
    "as it is": None,
    "isotonic": Isotonic(),
    "beta": Beta(),
    "venn_abers": VennAbers(),
    "vector": VectorScaling(),
    "correctness": Correctness(),
}
METRICS = ("PRR", "AUROC", "NLL", "ECE", "at 5%", "at 10%")


def on_splits(read: Predictions, recipe: CalibratorRecipe | None) -> Array:
    """[TIMES, metrics] of one model."""
    found = []
    for part in halves(read.groups, times=TIMES):
        fit, test = read.rows.rows(part.fit), read.rows.rows(part.test)
        of_test = softmax_response(test.output.probabilities)
        confidence, rank = 1 - of_test, -of_test
        if recipe is not None:
            fitted = fit_calibrator(recipe, softmax_response(fit.output.probabilities), right(fit), fit)
            confidence = fitted.confidence(evidence(fitted.reads, of_test, test.output))
            rank = -of_test if fitted.reads == "score" else confidence
        values = measured(confidence, right(test), rank)
        found.append([values[name] for name in METRICS])
    return np.array(found)


def rows_of(source: Source, models: Sequence[Predictions]) -> list[tuple[str, ...]]:
    rows = []
    for name, recipe in CALIBRATORS.items():
        values = np.mean([on_splits(read, recipe) for read in models], axis=0)  # over the models, split by split
        low, high = values.min(axis=0), values.max(axis=0)
        cells = (
            f"{mean:.3f} ({least:.3f} to {most:.3f})"
            for mean, least, most in zip(values.mean(axis=0), low, high, strict=True)
        )
        rows.append((f"{source.name}, {len(models)}", name, *cells))
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    options = options_of(__doc__ or "", arguments)
    there = [source for source in SOURCES if source.is_in(options.data)]
    rows: list[tuple[str, ...]] = []
    for source in track(there, "fitting", console=Console(stderr=True), transient=True):
        models = [
            each
            for each in source.read(options.data / source.folder)
            if each.rows.exclusive and each.folds is None  # five folds are no repeated halves
        ]
        if models:
            rows += rows_of(source, models)
    if not rows:
        print(f"There are no stored model outputs in {options.data}, so there is nothing to measure.")
        return 0
    words = ("PRR", "AUROC", "NLL", "ECE", "answered at 5% risk", "answered at 10% risk")
    put({"by data": table(("data, models", "calibrator", *words), rows)}, options.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
