"""Semantic entropy of sampled answers beside the probabilities of the options: how each finds errors, at what cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import medical_answers, medical_questions
from benchmarks.real.archives import csv_rows
from benchmarks.real.medical_answers import TEMPERATURES
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.predictions import Index, numbered
from benchmarks.real.splits import SEED, TIMES, Split, halves
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr, rc_auc
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import entropy, margin, softmax_response
from demur.uncertainty.consistency import combined, eigv_laplacian_jaccard
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.options import semantic_entropy

OPTIONS = ("A", "B", "C", "D")
DRAWN = {3: TEMPERATURES[2:], 6: TEMPERATURES[1:], 9: TEMPERATURES}
"""Samples, and the temperatures that they are from: the three at 0 are nearly always one answer."""

DRAWS = 10
LOGPROBS = "medqa_option_logprobs.csv.gz"


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """`n` answers of one model, and the scores that say how sure it is of them."""

    model: str
    answer: str
    """Which answer is judged."""

    right: Array
    """[n], 0 or 1"""

    scores: Mapping[str, Array]
    """[n] each, higher when less sure."""

    passes: Mapping[str, int]
    """How often the model must be asked for each score."""

    together: Index


@dataclass(frozen=True, kw_only=True)
class Measured:
    model: str
    answer: str
    score: str
    passes: int
    accuracy: float
    metrics: Mapping[str, Spread]


def measure(judged: Judged, *, times: int = TIMES) -> list[Measured]:
    """Every score by itself, on the same halves."""
    parts = halves(judged.together, times=times)
    rng = np.random.default_rng(SEED)
    return [
        Measured(
            model=judged.model,
            answer=judged.answer,
            score=name,
            passes=judged.passes[name],
            accuracy=float(judged.right.mean()),
            metrics=over_splits([_on(part, judged.right, u, rng) for part in parts]),
        )
        for name, u in judged.scores.items()
    ]


def _on(part: Split, right: Array, u: Array, rng: np.random.Generator) -> dict[str, float]:
    here, test = right[part.test], u[part.test]
    after = fit_isotonic(-u[part.fit], right[part.fit]).confidence(-test)
    return {
        "PRR": prr(here, test),
        "AUROC": error_roc_auc(here, test),
        "RC-AUC": rc_auc(1 - here, test),
        "ECE after": ece(after, here),
        "floor": noise_floor(ece, after, draws=DRAWS, rng=rng),
    }


def of_samples(letters: Sequence[Sequence[str]]) -> tuple[Array, list[str], Array]:
    """Entropy [n] of the sampled options, the most frequent ones, and U_cons [n]: of single options the graph
    Laplacian counts how many different ones there are."""
    found = [semantic_entropy(row, OPTIONS) for row in letters]
    different = [eigv_laplacian_jaccard([{letter} for letter in row]) for row in letters]
    return np.array([each.entropy for each in found]), [str(each.majority) for each in found], np.array(different)


def cases(data: Path) -> list[Judged]:
    """Of each model the most probable option, where probabilities are stored, and the most frequent sample."""
    sampled = medical_answers.samples(data)
    known = medical_answers.questions(data)
    found: list[Judged] = []
    by_probability = {
        predictions.model: (predictions.rows, qids)
        for predictions, qids in medical_questions.read_named(data / medical_questions.SOURCE.folder)
        if predictions.model in sampled
    }
    for model, runs in sampled.items():
        rows, qids = by_probability.get(model, (None, list(runs)))
        together = numbered(qids)
        truth = [OPTIONS[known[qid].answer] for qid in qids]
        drawn = {
            n: of_samples([[run for at in temperatures for run in runs[qid][TEMPERATURES.index(at)]] for qid in qids])
            for n, temperatures in DRAWN.items()
        }
        spread = {f"semantic entropy, {n} samples": u for n, (u, _, _) in drawn.items()}
        most = max(drawn)
        passes = {f"semantic entropy, {n} samples": n for n in drawn}
        if rows is not None:
            p = rows.output.probabilities
            single = {"softmax response": softmax_response(p), "entropy": entropy(p), "margin": margin(p)}
            product = combined(single["entropy"], drawn[most][2])
            found.append(
                Judged(
                    model=model,
                    answer="most probable option",
                    right=(p.argmax(axis=1) == rows.classes).astype(np.float64),
                    scores={**single, **spread, "entropy x U_cons": product},
                    passes={**dict.fromkeys(single, 1), **passes, "entropy x U_cons": 1 + most},
                    together=together,
                )
            )
        found += [
            Judged(
                model=model,
                answer=f"most frequent of {n}",
                right=np.array([a == b for a, b in zip(majority, truth, strict=True)], dtype=np.float64),
                scores={f"semantic entropy, {n} samples": u},
                passes=passes,
                together=together,
            )
            for n, (u, majority, _) in drawn.items()
        ]
    return found


def tokens(data: Path) -> dict[str, tuple[float, float]]:
    """By model, tokens and seconds of the one pass that gave the option probabilities, mean over questions."""
    rows = csv_rows(data / medical_answers.FOLDER / LOGPROBS)
    return {
        model: (
            float(np.mean([float(row["tokens"]) for row in rows if row["model"] == model])),
            float(np.mean([float(row["latency_s"]) for row in rows if row["model"] == model])),
        )
        for model in dict.fromkeys(row["model"] for row in rows)
    }
