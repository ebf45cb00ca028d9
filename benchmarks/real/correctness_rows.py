"""How a fit should spend few labelled rows on a model of correctness: tables for docs/evidence/correctness-rows.md.

python benchmarks/real/correctness_rows.py [--data FOLDER] [--write docs/evidence/correctness-rows.md]

One table is about the lead that the whole output must have to be chosen against the score, the other about the share of
the fitted rows that the calibrator gets where a rule makes a promise on the others.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
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
from benchmarks.real.splits import Split, halves
from benchmarks.real.tables import table
from demur.audit.metrics.selective import prr
from demur.policies.guaranteed_risk import guaranteed_risk
from demur.policies.learn_then_test import rejected_limits
from demur.policies.selective_risk import LIMITS
from demur.uncertainty.calibrators import evidence, fit_calibrator
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.correctness_calibrator import Correctness
from demur.uncertainty.correctness_model import correctness_crossfit
from demur.uncertainty.output import LabelledOutput

SEED = 20261126
LEADS = (0.0, 0.5, 1.0, 2.0, 3.0)
FEW = (40, 50, 70, 100, 150, 200, 400)
"""Rows to fit on, where the lead is chosen."""

TIMES = 3
LOST = 0.03

SHARES = (0.2, 1 / 3, 0.5, 2 / 3)
ROWS = (100, 300, 1_000)
"""Fitted rows, of which the calibrator gets a share and the rule the others."""

RISKS = (0.05, 0.1)
DELTA = 0.1
METHODS = ("sgr", "ltt")
SPLITS = 2


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One fit: what the model would bring, and by how much it leads."""

    gain: float
    """How much PRR rises on test rows, compared with the score alone."""

    lead: float
    """Cross-fitted log-likelihood of all rows, less that of the score; -inf where there is no model."""


def candidates(read: Sequence[Predictions], n: int) -> Iterator[Candidate]:
    recipe, rng = Correctness(), np.random.default_rng([SEED, n])
    for predictions, part in _parts(read, max(200, n), TIMES):
        fit = predictions.rows.rows(rng.permutation(part.fit)[:n])
        test = predictions.rows.rows(part.test)
        probs, correct = fit.output.probabilities, right(fit)
        model = recipe.recipe.fit(probs, correct, probs.argmax(axis=1))
        if model.kind == "score":
            yield Candidate(gain=0.0, lead=-np.inf)
            continue
        member = rng.permutation(n) % recipe.folds
        found = correctness_crossfit(probs, correct, member, recipe.recipe, score=recipe.by_score)
        before = prr(right(test), softmax_response(test.output.probabilities))
        gain = prr(right(test), -model.confidence(test.output.probabilities)) - before
        yield Candidate(gain=gain, lead=n * (found.score_nll - found.nll))


def by_lead(read: Sequence[Predictions], console: Console) -> str:
    rows = []
    for n in track(FEW, "leads", console=console, transient=True):
        found = list(candidates(read, n))
        cells = []
        for lead in LEADS:
            gains = np.array([one.gain if one.lead > 0 and one.lead >= lead else 0.0 for one in found])
            cells.append(f"{gains.mean():+.3f}, {(gains < -LOST).mean():.1%}")
        rows.append((f"{n}", *cells))
    return table(("rows to fit on", *(f"lead {lead:g}" for lead in LEADS)), rows)


def answered(method: str, confidence: Array, correct: Array, risk: float, of_test: Array) -> float:
    """The share of test rows that is answered under a promise made on labelled rows."""
    if method == "sgr":
        return float((of_test >= guaranteed_risk(confidence, 1 - correct, risk, delta=DELTA).threshold).mean())
    limits = np.asarray(LIMITS)[::-1]
    n = np.array([(confidence >= limit).sum() for limit in limits])
    wrong = np.array([(1 - correct[confidence >= limit]).sum() for limit in limits])
    rejected = rejected_limits(np.rint(wrong), n, risk, delta=DELTA, method="bonferroni").rejected
    return float((of_test >= limits[rejected[-1]]).mean()) if rejected else 0.0


def by_share(read: Sequence[Predictions], console: Console) -> str:
    rows = []
    for n, share in track([(n, share) for n in ROWS for share in SHARES], "shares", console=console, transient=True):
        rng, gains = np.random.default_rng([SEED, n]), []
        kept: dict[tuple[str, float], list[float]] = {(method, risk): [] for method in METHODS for risk in RISKS}
        for predictions, part in _parts(read, max(ROWS), SPLITS):
            chosen = rng.permutation(part.fit)[:n]
            k = round(share * n)
            fit, rule, test = (predictions.rows.rows(at) for at in (chosen[:k], chosen[k:], part.test))
            _, of_rule, of_test = _confidences(fit, rule, test)
            gains.append(prr(right(test), -of_test) - prr(right(test), softmax_response(test.output.probabilities)))
            for method, risk in kept:
                kept[method, risk].append(answered(method, of_rule, right(rule), risk, of_test))
        cells = [f"{np.mean(kept[method, risk]):.3f}" for risk in RISKS for method in METHODS]
        rows.append((f"{n:,}", f"{share:.0%}", f"{np.mean(gains):+.3f}", *cells))
    words = [f"at {risk:.0%}, `{method}`" for risk in RISKS for method in METHODS]
    return table(("fitted rows", "to the calibrator", "gain of PRR", *words), rows)


def _confidences(*parts: LabelledOutput) -> list[Array]:
    """[n] for each part: confidences by a model of correctness that is fitted on the first part."""
    fit = parts[0]
    fitted = fit_calibrator(Correctness(), softmax_response(fit.output.probabilities), right(fit), fit)
    return [
        fitted.confidence(evidence(fitted.reads, softmax_response(part.output.probabilities), part.output))
        for part in parts
    ]


def _parts(read: Sequence[Predictions], least: int, times: int) -> Iterator[tuple[Predictions, Split]]:
    for predictions in read:
        for part in halves(predictions.groups, times=times, seed=SEED):
            if len(part.fit) >= least:
                yield predictions, part


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args(arguments)
    there = [source for source in SOURCES if source.is_in(options.data)]
    if not there or (options.write and len(there) < len(SOURCES)):
        print(f"Not all of the stored model outputs are in {options.data}; nothing is written.")
        return 1 if there else 0
    read = [each for source in there for each in source.read(options.data / source.folder) if each.rows.exclusive]
    console = Console(stderr=True)
    made = {"lead": by_lead(read, console), "shares": by_share(read, console)}
    if options.write:
        options.write.write_text(with_tables(options.write.read_text(encoding="utf-8"), made), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
