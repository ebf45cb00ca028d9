"""Answers to questions of medical examinations: sampled letters, one answer each of ten models, texts of reasoning."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.archives import csv_rows, json_rows
from benchmarks.real.predictions import Index
from demur.uncertainty.checks import Array

FOLDER = "medical_mcq"
QUESTIONS, ANSWERS = "questions.jsonl.gz", "llm_answers.csv.gz"
TRACES, SAMPLES = "reasoning_traces.jsonl.gz", "medqa_sampled_runs.csv.gz"
FILES = (QUESTIONS, ANSWERS, TRACES, SAMPLES)

ZERO_SHOT = (
    "gpt-4o-mini",
    "claude-3-5-haiku",
    "Llama-3.3-70B-Instruct-Turbo",
    "DeepSeek-V3",
    "claude-3-5-sonnet",
    "gpt-4o",
    "QwQ-32B-Preview",
    "o1-mini",
    "DeepSeek-R1",
    "o3-mini",
)
"""Each answered every question once."""

LETTERS = "ABCDEFGHIJ"
TEMPERATURES = ("t0.0", "t0.3", "t0.7")

THOUGHT = re.compile(r'"step_by_step_thinking"\s*:\s*"(.*?)"?\s*,?\s*"answer_choice"', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Question:
    source: str
    n_options: int
    answer: int
    """Index of the right letter."""

    subject: str
    """The specialty, or else the subject or the category that the source names; empty where it names none."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """What one model said to each of `n` questions."""

    qids: tuple[str, ...]
    letters: Index
    """[n], -1 where it chose none of them."""

    right: Array
    """[n], 0 or 1"""

    refused: NDArray[np.bool_]
    """[n], it said in words that it does not choose."""

    prompt_tokens: Array
    """[n], NaN where the source has none."""

    completion_tokens: Array

    def of(self, qids: Sequence[str]) -> "Answers":
        """The same of these questions, in their order."""
        at = {qid: row for row, qid in enumerate(self.qids)}
        rows = np.array([at[qid] for qid in qids], dtype=np.intp)
        return Answers(
            qids=tuple(qids),
            letters=self.letters[rows],
            right=self.right[rows],
            refused=self.refused[rows],
            prompt_tokens=self.prompt_tokens[rows],
            completion_tokens=self.completion_tokens[rows],
        )


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One text of reasoning, and whether the answer at its end was right."""

    qid: str
    thought: str
    right: bool
    chosen: bool
    """False where it named none of the options."""


def questions(data: Path) -> dict[str, Question]:
    """By `qid`."""
    found = {}
    for row in json_rows(data / FOLDER / QUESTIONS):
        found[row["qid"]] = Question(
            source=row["source"],
            n_options=len(row["options"]),
            answer=LETTERS.index(row["answer"]),
            subject=next((row[name] for name in ("specialty", "subject", "category") if row.get(name)), ""),
        )
    return found


def answers(data: Path) -> dict[tuple[str, str], Answers]:
    """By model and setting."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in csv_rows(data / FOLDER / ANSWERS):
        rows.setdefault((row["model"], row["setting"]), []).append(row)
    return {name: _answers(lines) for name, lines in rows.items()}


def in_common(of: Sequence[Answers]) -> list[str]:
    """The questions that all of them answered, in the order of the first."""
    shared = set.intersection(*(set(each.qids) for each in of))
    return [qid for qid in of[0].qids if qid in shared]


def samples(data: Path) -> dict[str, dict[str, list[list[str]]]]:
    """By model and question: three letters for each of TEMPERATURES."""
    found: dict[str, dict[str, list[list[str]]]] = {}
    for row in csv_rows(data / FOLDER / SAMPLES):
        letters = [[row[f"{name}_r{run}"] for run in (1, 2, 3)] for name in TEMPERATURES]
        found.setdefault(row["model"], {})[row["qid"]] = letters
    return found


def traces(data: Path) -> dict[tuple[str, str], list[Trace]]:
    """By model and setting. The text is what stands before the answer in the stored object, or all of it where the
    object is malformed."""
    found: dict[tuple[str, str], list[Trace]] = {}
    for row in json_rows(data / FOLDER / TRACES):
        match = THOUGHT.search(row["output"])
        found.setdefault((row["model"], row["setting"]), []).append(
            Trace(
                qid=row["qid"],
                thought=match[1] if match else row["output"],
                right=row["predicted"] == row["answer"],
                chosen=bool(row["predicted"]),
            )
        )
    return found


def _answers(lines: Sequence[dict[str, str]]) -> Answers:
    letters = [LETTERS.index(line["predicted"]) if line["predicted"] else -1 for line in lines]
    return Answers(
        qids=tuple(line["qid"] for line in lines),
        letters=np.array(letters, dtype=np.intp),
        right=np.array([line["predicted"] == line["answer"] for line in lines], dtype=np.float64),
        refused=np.array([line["status"] == "no_option_chosen" for line in lines]),
        prompt_tokens=np.array([float(line["prompt_tokens"] or "nan") for line in lines]),
        completion_tokens=np.array([float(line["completion_tokens"] or "nan") for line in lines]),
    )
