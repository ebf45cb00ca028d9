"""A small model, then a large one, then a person: what the promise costs in tokens and in people, and whether it holds.

The limit is fitted on draws from real rows, so that the true risk of what it answers is counted over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import medical_answers, medical_questions
from benchmarks.real.archives import csv_rows
from benchmarks.real.medical_answers import FOLDER, Answers
from benchmarks.real.predictions import Index
from benchmarks.real.repeated_answers import LOGPROBS
from benchmarks.real.splits import SEED
from policies.cascade import last_words
from policies.decision import Action
from policies.selective_risk import SelectiveRisk
from policies.selector_recipe import Parts, SelectorRecipe, fit_in_turn
from uncertainty.checks import Array
from uncertainty.isotonic import Isotonic
from uncertainty.options import sample_frequency_scores
from uncertainty.output import LabelledOutput, Need, Output
from uncertainty.scores import Formula, ScoreRecipe

TIMES = 200
DELTA = 0.1
LABELS = 1000
"""For each fit: half of them for the calibrators, half for the limit."""

NOTHING = -50.0
"""Logit of an option that was not chosen."""

PANEL = ("gpt-4o-mini", "Llama-3.3-70B-Instruct-Turbo", "DeepSeek-V3")
PROBABILITY = Formula(name="softmax_response")
TEST_PART = "MedQA, test part"


@dataclass(frozen=True, kw_only=True)
class FirstFeature:
    """The number that stands where an embedding would: the length of a trace. The longer, the less sure."""

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({"embedding"})

    def fit(self, rows: LabelledOutput, quality: Array) -> "FirstFeature":  # noqa: ARG002 - nothing to learn
        return self

    def of(self, output: Output) -> Array:
        return np.asarray(output.needed("embedding")[:, 0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """One model of a cascade and what it said about each of `n` questions."""

    model: str
    rows: LabelledOutput
    score: ScoreRecipe
    tokens: Array
    """[n], spent when it is asked; NaN where they are not stored."""

    written: Array
    """[n], of these the ones that it wrote itself."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CascadeCase:
    data: str
    stages: tuple[Stage, ...]
    risks: tuple[float, ...]
    """Shares of wrong answers that are asked for."""

    @property
    def n(self) -> int:
        return len(self.stages[0].rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class CascadeOutcome:
    """What came of one road at one target, over D draws; of all rows."""

    data: str
    road: str
    risk: float
    answered: Array
    """[D], share that is not left to a person."""

    by: Array
    """[D, stages], share that each model answers."""

    wrong: Array
    """[D], share of the answers; NaN where nothing is answered."""

    asked: Array
    """[D, stages], share of the questions that each model is asked."""

    tokens: Array
    """[D], for each question, on average."""

    written: Array

    @property
    def broken(self) -> int:
        return int((self.wrong > self.risk).sum())

    @property
    def silent(self) -> int:
        return int((self.answered == 0).sum())


def measure(case: CascadeCase, *, times: int = TIMES, labels: int = LABELS, seed: int = SEED) -> list[CascadeOutcome]:
    """The cascade, and each of its models alone behind the same rule. Draws depend on the number of rows alone."""
    rng = np.random.default_rng(seed)
    draws = [(rng.integers(case.n, size=labels // 2), rng.integers(case.n, size=labels // 2)) for _ in range(times)]
    roads = [case.stages, *((stage,) for stage in case.stages)]
    return [_outcome(case.data, road, risk, draws) for risk in case.risks for road in roads]


def _outcome(data: str, road: Sequence[Stage], risk: float, draws: Sequence[tuple[Index, Index]]) -> CascadeOutcome:
    recipes = {stage.model: recipe(stage.score, risk) for stage in road}
    right = np.stack([_right(stage.rows) for stage in road])
    answered, wrong, by, asked, tokens, written = [], [], [], [], [], []
    for calibration, rule in draws:
        ended, said = _ended(road, recipes, calibration, rule)
        of = np.array([(ended[said] == stage).sum() for stage in range(len(road))]) / len(ended)
        reached = np.array([(ended >= stage).mean() for stage in range(len(road))])
        answered.append(said.mean())
        by.append(of)
        asked.append(reached)
        wrong.append(1 - right[ended, np.arange(len(ended))][said].mean() if said.any() else np.nan)
        tokens.append(sum((stage.tokens * (ended >= at)).mean() for at, stage in enumerate(road)))
        written.append(sum((stage.written * (ended >= at)).mean() for at, stage in enumerate(road)))
    return CascadeOutcome(
        data=data,
        road=" -> ".join(stage.model for stage in road),
        risk=risk,
        answered=np.array(answered),
        by=np.array(by),
        wrong=np.array(wrong),
        asked=np.array(asked),
        tokens=np.array(tokens),
        written=np.array(written),
    )


def recipe(score: ScoreRecipe, risk: float) -> SelectorRecipe:
    return SelectorRecipe(
        scores={"u": score},
        confidence_score="u",
        calibrator=Isotonic(),
        policy=SelectiveRisk(max_risk=risk, delta=DELTA, method="ltt"),
    )


def _ended(
    road: Sequence[Stage], recipes: Mapping[str, SelectorRecipe], calibration: Index, rule: Index
) -> tuple[Index, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Which model had the last word about each row, and whether it answered."""
    parts = {}
    for stage in road:
        fitted = stage.rows.rows(calibration)
        parts[stage.model] = Parts(statistics=fitted, mixing=fitted, calibration=fitted, rule=stage.rows.rows(rule))
    selectors = fit_in_turn(recipes, parts)
    ended = last_words(
        {stage.model: selector.decide(stage.rows.output) for stage, selector in zip(road, selectors, strict=True)}
    )
    said = np.array([action is Action.ANSWER for action in ended.judgement.decisions.actions])
    return ended.by, said


def _right(rows: LabelledOutput) -> Array:
    return np.asarray(rows.truth[np.arange(len(rows)), rows.output.probabilities.argmax(axis=1)], dtype=np.float64)


def chosen_option(letters: Index, classes: Index, n_options: int, lengths: Array) -> LabelledOutput:
    """One letter for each question, and the length of what came before it."""
    logits = np.full((len(letters), n_options), NOTHING)
    logits[np.arange(len(letters)), letters] = 0.0
    output = Output.from_logits(logits, embedding=lengths[:, None])
    return LabelledOutput.of_classes(output, classes)


def votes(letters: Array, classes: Index, n_options: int) -> LabelledOutput:
    """[n, M] letters of M models, each a vote; of options with as many votes the first listed is the answer."""
    shares = np.stack([1 - sample_frequency_scores(row, tuple(range(n_options))) for row in letters.tolist()])
    output = Output(logits=np.where(shares > 0, np.log(np.maximum(shares, 1e-12)), NOTHING), probabilities=shares)
    return LabelledOutput.of_classes(output, classes)


def cases(data: Path) -> list[CascadeCase]:
    return [_by_probability(data), _small_and_reasoning(data), *_by_votes_and_length(data)]


def _by_probability(data: Path) -> CascadeCase:
    """Two sizes of one family, by the probability of their option."""
    names = ("qwen25_7b", "qwen25_32b")
    read = {
        predictions.model: (predictions.rows, qids)
        for predictions, qids in medical_questions.read_named(data / medical_questions.SOURCE.folder)
    }
    written = {(row["model"], row["qid"]): float(row["tokens"]) for row in csv_rows(data / FOLDER / LOGPROBS)}
    shared = [qid for qid in read[names[0]][1] if qid in set(read[names[1]][1])]
    stages = []
    for name in names:
        rows, qids = read[name]
        own = np.array([written[name, qid] for qid in shared])
        at = np.array([qids.index(qid) for qid in shared])
        stages.append(
            Stage(model=name, rows=rows.rows(at), score=PROBABILITY, tokens=np.full(len(own), np.nan), written=own)
        )
    return CascadeCase(data="MedQA, 721 of its training part", stages=tuple(stages), risks=(0.15, 0.2, 0.25))


def _small_and_reasoning(data: Path) -> CascadeCase:
    """A small model by its probability, then one that reasons, by how long it does."""
    read = medical_questions.read_named(data / medical_questions.SOURCE.folder)
    rows, qids = next((p.rows, qids) for p, qids in read if p.model == "mistral-7b-qlora-medqa")
    large = medical_answers.answers(data)["o3-mini", "zero_shot"].of(qids)
    unknown = np.full(len(qids), np.nan)
    return CascadeCase(
        data=TEST_PART,
        stages=(
            Stage(model="mistral-7b-qlora", rows=rows, score=PROBABILITY, tokens=unknown, written=unknown),
            _reasoner("o3-mini", large, rows.classes, rows.truth.shape[1]),
        ),
        risks=(0.05, 0.1, 0.15),
    )


def _by_votes_and_length(data: Path) -> list[CascadeCase]:
    """Three models that do not reason, by how many of them agree, then one that does; and two that do."""
    by_model, known = medical_answers.answers(data), medical_answers.questions(data)
    panel = [by_model[name, "zero_shot"] for name in PANEL]
    every = medical_answers.in_common(panel)
    found = []
    for name, qids, risks in (
        (TEST_PART, [qid for qid in every if known[qid].source == "medqa_test"], (0.05, 0.1, 0.15)),
        ("five examinations", every, (0.1, 0.15, 0.2)),
    ):
        classes = np.array([known[qid].answer for qid in qids], dtype=np.intp)
        n_options = max(known[qid].n_options for qid in qids)
        small = _panel([each.of(qids) for each in panel], classes, n_options)
        middle, large = (
            _reasoner(model, by_model[model, "zero_shot"].of(qids), classes, n_options)
            for model in ("o3-mini", "DeepSeek-R1")
        )
        found += [CascadeCase(data=name, stages=stages, risks=risks) for stages in ((small, middle), (middle, large))]
    return found


def _panel(panel: Sequence[Answers], classes: Index, n_options: int) -> Stage:
    return Stage(
        model="three small ones",
        rows=votes(np.stack([each.letters for each in panel], axis=1), classes, n_options),
        score=PROBABILITY,
        tokens=np.sum([each.prompt_tokens + each.completion_tokens for each in panel], axis=0),
        written=np.sum([each.completion_tokens for each in panel], axis=0),
    )


def _reasoner(name: str, given: Answers, classes: Index, n_options: int) -> Stage:
    return Stage(
        model=name,
        rows=chosen_option(given.letters, classes, n_options, given.completion_tokens),
        score=FirstFeature(),
        tokens=given.prompt_tokens + given.completion_tokens,
        written=given.completion_tokens,
    )


@dataclass(frozen=True, kw_only=True)
class Alone:
    """A model that answers everything."""

    data: str
    model: str
    accuracy: float
    tokens: float
    written: float


def alone(cases: Sequence[CascadeCase]) -> list[Alone]:
    found: dict[tuple[str, str], Alone] = {}
    for case in cases:
        for stage in case.stages:
            found[case.data, stage.model] = Alone(
                data=case.data,
                model=stage.model,
                accuracy=float(_right(stage.rows).mean()),
                tokens=float(stage.tokens.mean()),
                written=float(stage.written.mean()),
            )
    return list(found.values())
