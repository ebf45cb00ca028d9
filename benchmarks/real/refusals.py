"""Whether scores call a question uncertain on which a model refused to choose an option, in its own words."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.real import medical_answers, medical_questions
from benchmarks.real.medical_answers import FOLDER, LETTERS, ZERO_SHOT
from benchmarks.real.predictions import Index, numbered
from benchmarks.real.splits import SEED, TIMES
from benchmarks.real.spread import Spread
from demur.audit.metrics.discrimination import roc_auc
from demur.uncertainty.checks import Array
from demur.uncertainty.class_probability import softmax_response
from demur.uncertainty.options import semantic_entropy
from demur.uncertainty.trace import trace_features

LEAST = 10
"""Examinations with fewer refusals are left out, and models with fewer on the questions that a score knows."""

CONTROL = "o3-mini"


@dataclass(frozen=True, kw_only=True, eq=False)
class Refusing:
    """One model on `n` questions."""

    model: str
    refused: NDArray[np.bool_]
    """[n]"""

    chosen: NDArray[np.bool_]
    """[n], chose an option. A few rows are neither: there was no output."""

    right: NDArray[np.bool_]
    """[n]"""

    sources: Index
    """[n]"""

    scores: Mapping[str, Array]
    """[n] each, higher when less sure; NaN where the score does not know the question."""

    others_right: Array
    """[n], whether another model was right; NaN where it was not asked."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    model: str
    score: str
    refused: int
    """Of the questions that the score knows."""

    n: int
    refusals: Spread
    """AUROC of the score for refusals among all answers, within one examination; over random halves."""

    against_errors: Spread
    """The same for refusals among refusals and wrong answers."""

    errors: Spread
    """The same for wrong answers among answers: what the score is for."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What was refused, in numbers."""

    model: str
    source: str
    n: int
    refused: int
    right: float
    """Of those that it answered."""

    other_on_refused: float
    """Share right of CONTROL."""

    other_on_answered: float


def measure(case: Refusing, *, times: int = TIMES, seed: int = SEED) -> list[Measured]:
    """Random halves, since nothing is fitted: they say how far chance goes."""
    found = []
    wrong, either = case.chosen & ~case.right, case.chosen | case.refused
    for name, u in case.scores.items():
        known = np.isfinite(u)
        if int(case.refused[known].sum()) < LEAST:
            continue
        rng = np.random.default_rng(seed)
        values = []
        for _ in range(times):
            half = known & (rng.random(len(u)) < 0.5)
            values.append(
                (
                    within(case.refused, u, case.sources, half & either),
                    within(case.refused, u, case.sources, half & (case.refused | wrong)),
                    within(wrong, u, case.sources, half & case.chosen),
                )
            )
        columns = np.array(values).T
        refusals, against, errors = (Spread(mean=float(v.mean()), sd=float(v.std(ddof=1))) for v in columns)
        found.append(
            Measured(
                model=case.model,
                score=name,
                refused=int(case.refused[known].sum()),
                n=int(known.sum()),
                refusals=refusals,
                against_errors=against,
                errors=errors,
            )
        )
    return found


def within(positive: NDArray[np.bool_], u: Array, sources: Index, here: NDArray[np.bool_]) -> float:
    """ROC-AUC of `u` [n] for `positive` [n] inside each examination, weighted by its pairs of both; NaN without one.

    So that it counts nothing for a score to know which examination is hard.
    """
    total, pairs = 0.0, 0
    for source in np.unique(sources[here]):
        rows = here & (sources == source)
        of = int(positive[rows].sum())
        weight = of * (int(rows.sum()) - of)
        if weight:
            total += weight * roc_auc(positive[rows], u[rows])
            pairs += weight
    return total / pairs if pairs else float("nan")


def counted(case: Refusing, names: Mapping[int, str]) -> list[Counted]:
    """By examination, where there are LEAST refusals or more."""
    found = []
    for source, name in names.items():
        here = case.sources == source
        refused = here & case.refused
        if int(refused.sum()) < LEAST:
            continue
        answered = here & case.chosen
        found.append(
            Counted(
                model=case.model,
                source=name,
                n=int(here.sum()),
                refused=int(refused.sum()),
                right=float(case.right[answered].mean()),
                other_on_refused=float(np.nanmean(case.others_right[refused])),
                other_on_answered=float(np.nanmean(case.others_right[answered])),
            )
        )
    return found


def cases(data: Path) -> tuple[list[Refusing], dict[int, str]]:
    """GPT-3.5 and GPT-4, the only models here that refuse; and the names of the examinations."""
    by_model, known = medical_answers.answers(data), medical_answers.questions(data)
    all_scores = _scores(data)
    control = by_model[CONTROL, "zero_shot"]
    right_of_control = dict(zip(control.qids, control.right.tolist(), strict=True))
    traces = medical_answers.traces(data)
    found = []
    names: dict[int, str] = {}
    for (model, setting), given in by_model.items():
        if not given.refused.any():
            continue
        sources = numbered([known[qid].source for qid in given.qids])
        names |= {int(number): known[qid].source for number, qid in zip(sources, given.qids, strict=True)}
        own = {each.qid: float(trace_features(each.thought).tokens) for each in traces.get((model, setting), [])}
        found.append(
            Refusing(
                model=f"{model}, {setting}",
                refused=given.refused,
                chosen=given.letters >= 0,
                right=given.right == 1,
                sources=sources,
                scores={
                    name: np.array([score.get(qid, np.nan) for qid in given.qids])
                    for name, score in {"length of its own trace": own, **all_scores}.items()
                },
                others_right=np.array([right_of_control.get(qid, np.nan) for qid in given.qids]),
            )
        )
    return found, names


def _scores(data: Path) -> dict[str, dict[str, float]]:
    """Of other models, by question."""
    by_model = medical_answers.answers(data)
    panel = [by_model[model, "zero_shot"] for model in ZERO_SHOT]
    shared = medical_answers.in_common(panel)
    letters = np.stack([each.of(shared).letters for each in panel], axis=1).tolist()
    spread = [semantic_entropy([LETTERS[letter] for letter in row], tuple(LETTERS)).entropy for row in letters]
    found = {"disagreement of ten models": dict(zip(shared, spread, strict=True))}
    for model in ("o3-mini", "DeepSeek-R1"):
        given = by_model[model, "zero_shot"]
        lengths = given.completion_tokens.tolist()
        found[f"length of the reasoning of {model}"] = dict(zip(given.qids, lengths, strict=True))
    for predictions, qids in medical_questions.read_named(data / FOLDER):
        if predictions.model == "mistral-7b-qlora-medqa":
            u = softmax_response(predictions.rows.output.probabilities)
            found["softmax response of mistral-7b-qlora"] = dict(zip(qids, u.tolist(), strict=True))
    return found
