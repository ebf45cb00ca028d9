"""The model of correctness beside the score alone, on stored outputs of real models: tables for
docs/evidence/correctness.md.

python benchmarks/real/correctness.py [--data FOLDER] [--write docs/evidence/correctness.md]
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file, it finds the rooms that it lies beside

import numpy as np
from rich.console import Console
from rich.progress import track

from benchmarks.real.confidence import right
from benchmarks.real.document import with_tables
from benchmarks.real.predictions import Predictions
from benchmarks.real.sources import SOURCES
from benchmarks.real.splits import SEED, halves, splits
from benchmarks.real.spread import Spreads, over_splits
from benchmarks.real.tables import table
from demur.audit.metrics.calibration import ece, nll
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.uncertainty.calibrators import CalibratorRecipe, evidence, fit_calibrator
from demur.uncertainty.checks import Array
from demur.uncertainty.class_calibration import VectorScaling
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.correctness_calibrator import Correctness, CorrectnessMap
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.venn_abers import VennAbers

SCORE, MODEL = "isotonic", "correctness"
CALIBRATORS: Mapping[str, CalibratorRecipe] = {
    SCORE: Isotonic(),
    "venn_abers": VennAbers(),
    "vector": VectorScaling(),
    MODEL: Correctness(),
}
RISKS = (0.05, 0.1)
FEWER = (50, 100, 200, 400, 800)
"""Rows to fit on, where it is asked how many are enough."""

BETTER = 0.03
"""A difference of PRR that is worth having."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    data: str
    model: str
    n: int
    n_fit: int
    accuracy: float
    by_calibrator: Mapping[str, Spreads]
    chosen: float
    """The share of the splits in which the whole output was chosen against the score alone."""


def coverage_at(confidence: Array, correct: Array, risk: float) -> float:
    """The largest share of rows, surest first, of which at most `risk` are wrong; rows that tie go together."""
    order = np.argsort(-confidence, kind="stable")
    sure, wrong = confidence[order], np.cumsum(1 - correct[order])
    n = np.arange(1, len(order) + 1)
    last = np.append(sure[1:] != sure[:-1], True)
    fits = n[last & (wrong <= risk * n)]
    return float(fits.max() / len(order)) if len(fits) else 0.0


def measured(confidence: Array, correct: Array, rank: Array) -> dict[str, float]:
    """`rank` [n], higher when surer: isotonic ties rows that its score tells apart."""
    return {
        "PRR": prr(correct, -rank),
        "AUROC": error_roc_auc(correct, -rank),
        "NLL": nll(confidence, correct),
        "ECE": ece(confidence, correct),
        **{f"at {risk:.0%}": coverage_at(rank, correct, risk) for risk in RISKS},
    }


def measure(data: str, predictions: Predictions) -> Measurement:
    values: dict[str, list[dict[str, float]]] = {name: [] for name in CALIBRATORS}
    chosen = []
    parts = splits(predictions)
    for part in parts:
        fit, test = predictions.rows.rows(part.fit), predictions.rows.rows(part.test)
        u, of_test = softmax_response(fit.output.probabilities), softmax_response(test.output.probabilities)
        for name, recipe in CALIBRATORS.items():
            fitted = fit_calibrator(recipe, u, right(fit), fit)
            confidence = fitted.confidence(evidence(fitted.reads, of_test, test.output))
            rank = -of_test if fitted.reads == "score" else confidence
            values[name].append(measured(confidence, right(test), rank))
            if isinstance(fitted, CorrectnessMap):
                chosen.append(fitted.use == "model")
    return Measurement(
        data=data,
        model=predictions.model,
        n=len(predictions),
        n_fit=int(np.mean([len(part.fit) for part in parts])),
        accuracy=float(right(predictions.rows).mean()),
        by_calibrator={name: over_splits(rows) for name, rows in values.items()},
        chosen=float(np.mean(chosen)),
    )


def by_size(read: Sequence[Predictions]) -> str:
    """How the gain in PRR grows with the rows that are fitted on, over models that have so many."""
    rows = []
    rng = np.random.default_rng(SEED)
    for size in FEWER:
        gains, forced = [], []
        for predictions in read:
            for part in halves(predictions.groups, times=2):
                if len(part.fit) < max(FEWER):
                    continue
                fit = predictions.rows.rows(rng.permutation(part.fit)[:size])
                test = predictions.rows.rows(part.test)
                u, of_test = softmax_response(fit.output.probabilities), softmax_response(test.output.probabilities)
                fitted = fit_calibrator(Correctness(), u, right(fit), fit)
                always = Correctness().recipe.fit(fit.output.probabilities, right(fit))
                before = prr(right(test), of_test)
                gains.append(
                    prr(right(test), -fitted.confidence(evidence(fitted.reads, of_test, test.output))) - before
                )
                forced.append(prr(right(test), -always.confidence(test.output.probabilities)) - before)
        rows.append((f"{size}", *_gains(gains), *_gains(forced)))
    words = ("mean gain", "worst", f"lost over {BETTER:g}")
    return table(("rows to fit on", *words, *(f"{word}, not chosen" for word in words)), rows)


def _gains(gains: Sequence[float]) -> tuple[str, str, str]:
    found = np.array(gains)
    return f"{found.mean():+.3f}", f"{found.min():+.3f}", f"{(found < -BETTER).sum()} of {len(found)}"


def summary(found: Sequence[Measurement]) -> str:
    def mean(name: str, metric: str) -> float:
        return float(np.mean([m.by_calibrator[name][metric].mean for m in found]))

    metrics = ("PRR", "AUROC", "NLL", "ECE", *(f"at {risk:.0%}" for risk in RISKS))
    gains = {
        name: [m.by_calibrator[name]["PRR"].mean - m.by_calibrator[SCORE]["PRR"].mean for m in found]
        for name in CALIBRATORS
    }
    rows = [
        (
            name,
            *(f"{mean(name, metric):.3f}" for metric in metrics),
            f"{sum(gain > BETTER for gain in gains[name])} of {len(found)}",
            f"{sum(gain < -BETTER for gain in gains[name])} of {len(found)}",
        )
        for name in CALIBRATORS
    ]
    words = [f"answered at {risk:.0%} risk" for risk in RISKS]
    return table(
        ("calibrator", *metrics[:4], *words, f"PRR better by {BETTER:g}", f"worse by {BETTER:g}"),
        rows,
    )


def each(found: Sequence[Measurement]) -> str:
    rows = []
    for m in found:
        before, after = m.by_calibrator[SCORE], m.by_calibrator[MODEL]
        cells = [f"{before[name].mean:.3f} → {after[name].mean:.3f}" for name in ("PRR", "AUROC", "NLL")]
        cells += [f"{before[name].mean:.2f} → {after[name].mean:.2f}" for name in (f"at {risk:.0%}" for risk in RISKS)]
        sd = f"± {after['PRR'].sd:.3f}"
        rows.append((m.data, m.model, f"{m.n_fit:,}", f"{m.accuracy:.2f}", *cells, sd, f"{m.chosen:.0%}"))
    words = [f"answered at {risk:.0%} risk" for risk in RISKS]
    return table(("data", "model", "rows fitted", "accuracy", "PRR", "AUROC", "NLL", *words, "PRR sd", "chosen"), rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args(arguments)
    there = [source for source in SOURCES if source.is_in(options.data)]
    if not there or (options.write and len(there) < len(SOURCES)):
        print(f"Not all of the stored model outputs are in {options.data}; nothing is written.")
        return 1 if there else 0
    read = [(source.name, each) for source in there for each in source.read(options.data / source.folder)]
    read = [(name, predictions) for name, predictions in read if predictions.rows.exclusive]
    console = Console(stderr=True)
    found = [
        measure(name, predictions) for name, predictions in track(read, "measuring", console=console, transient=True)
    ]
    made = {
        "calibrators": summary(found),
        "sizes": by_size([predictions for _, predictions in read]),
        "models": each(found),
    }
    if options.write:
        options.write.write_text(
            with_tables(options.write.read_text(encoding="utf-8"), made, partly=True), encoding="utf-8"
        )
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
