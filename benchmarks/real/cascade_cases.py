"""The cascades whose promise is counted: models of which the answers to the same questions are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import medical_answers, medical_questions
from benchmarks.real.archives import csv_rows
from benchmarks.real.cascades import CascadeCase, Stage
from benchmarks.real.medical_answers import FOLDER, Answers
from benchmarks.real.predictions import Index
from benchmarks.real.repeated_answers import LOGPROBS
from demur.uncertainty.checks import Array
from demur.uncertainty.options import sample_frequency_scores
from demur.uncertainty.output import LabelledOutput, Need, Output
from demur.uncertainty.scores import Formula

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
