"""Whether the promises hold on real data: the sets, answers and missed labels of 200 random splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.real import (
    answer_promises,
    chest_xrays,
    intents,
    missed_promises,
    peers,
    sampled_answers,
    set_promises,
    six_options,
)
from benchmarks.real.answer_promises import AnswerCase, AnswerOutcome
from benchmarks.real.missed_promises import MissedCase, MissedOutcome
from benchmarks.real.predictions import numbered
from benchmarks.real.set_kinds import SetCase
from benchmarks.real.set_promises import SetOutcome
from benchmarks.real.splits import SEED, halves

TIMES = 200

Outcome = SetOutcome | AnswerOutcome | MissedOutcome

INTENTS = "intents"
LANGUAGE_MODELS = {"gemma-2-9b-it": (0.1, 0.2, 0.25), "mistral-7b-instruct": (0.2, 0.25, 0.3)}
"""Six options, the five tasks together; and the shares of wrong answers that are asked for."""

FILES = {
    "intents": (intents.FOLDER, intents.FILE),
    "six options": (six_options.SOURCE.folder, *six_options.SOURCE.files),
    "sampled answers": (sampled_answers.FOLDER, sampled_answers.FILE),
    "chest X-rays": (chest_xrays.SOURCE.folder, *chest_xrays.SOURCE.files),
}


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    measure: Callable[[], Sequence[Outcome]]


def missing(data: Path) -> list[str]:
    """The names of those that are not in the folder."""
    return [name for name, path in FILES.items() if not data.joinpath(*path).is_file()]


def steps(data: Path, *, times: int = TIMES) -> list[Step]:
    """One for each data set that is there; MAPIE and crepes take part where they are installed."""
    made = {
        "intents": lambda: _intents(data, times),
        "six options": lambda: _six_options(data, times),
        "sampled answers": lambda: _sampled_answers(data, times),
        "chest X-rays": lambda: _chest_xrays(data, times),
    }
    absent = missing(data)
    return [Step(name=name, measure=measure) for name, measure in made.items() if name not in absent]


def _intents(data: Path, times: int) -> list[Outcome]:
    read = intents.read(data)
    known = read.classes != intents.OUT_OF_SCOPE
    case = SetCase(
        data=INTENTS,
        probabilities=read.probabilities[known],
        classes=read.classes[known],
        together=read.texts[known],
        groups=read.domains[known],
        kinds=(
            "split",
            "adaptive",
            "adaptive, as it was",
            "regularised, 0.01 from the sixth",
            "regularised",
            "class-conditional",
            "group-conditional",
        ),
    )
    answers = AnswerCase(
        data=f"{INTENTS}, with out of scope",
        confidence=read.probabilities.max(axis=1),
        correct=(read.probabilities.argmax(axis=1) == read.classes).astype(np.float64),
        risks=(0.02, 0.05, 0.1),
    )
    return [*_sets(case, times), *_answers(answers, times)]


def _six_options(data: Path, times: int) -> list[Outcome]:
    read = {each.model: each for each in six_options.SOURCE.read(data / six_options.SOURCE.folder)}
    found: list[Outcome] = []
    for model, risks in LANGUAGE_MODELS.items():
        tasks = [read[f"{model}, {task}"] for task in six_options.TASKS.values() if f"{model}, {task}" in read]
        probabilities = np.concatenate([task.rows.output.probabilities for task in tasks])
        classes = np.concatenate([task.rows.classes for task in tasks])
        case = SetCase(
            data=model,
            probabilities=probabilities,
            classes=classes,
            together=numbered(probabilities),
            groups=np.repeat(np.arange(len(tasks)), [len(task) for task in tasks]),
        )
        answers = AnswerCase(
            data=model,
            confidence=probabilities.max(axis=1),
            correct=(probabilities.argmax(axis=1) == classes).astype(np.float64),
            risks=risks,
        )
        found += [*_sets(case, times), *_answers(answers, times)]
    return found


def _sampled_answers(data: Path, times: int) -> list[Outcome]:
    found: list[Outcome] = []
    for model in sampled_answers.MODELS:
        scores, classes, questions = sampled_answers.read(data, model)
        case = SetCase(data=model, probabilities=1 - scores, classes=classes, together=questions, kinds=("sampled",))
        found += _sets(case, times)
    return found


def _chest_xrays(data: Path, times: int) -> list[Outcome]:
    """MAPIE refuses rows without a label; so the rows with one are looked at by themselves."""
    (read,) = chest_xrays.SOURCE.read(data / chest_xrays.SOURCE.folder)
    found: list[Outcome] = []
    with_finding = np.asarray(read.rows.truth.any(axis=1))
    for name, rows in {"X-rays": read, "X-rays with a finding": read.only(with_finding)}.items():
        probabilities, truth = rows.rows.output.probabilities, rows.rows.truth
        case = MissedCase(data=name, probabilities=probabilities, truth=truth, together=rows.groups)
        others = {}
        if peers.are_installed() and truth.any(axis=1).all():
            others["MAPIE"] = peers.MapieMissed(probabilities, truth).limits
        found += missed_promises.measure(case, halves(case.together, times=times), others)
    return found


def _sets(case: SetCase, times: int) -> list[SetOutcome]:
    others = peers.SETS if peers.are_installed() else {}
    return set_promises.measure(case, halves(case.together, times=times), others)


def _answers(case: AnswerCase, times: int) -> list[AnswerOutcome]:
    others = peers.RULES if peers.are_installed() else {}
    return answer_promises.measure(case, times, SEED, others)
