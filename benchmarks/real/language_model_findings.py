"""Everything that is measured on stored outputs of language models, question by question."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.real import (
    cascade_cases,
    cascades,
    judge_length,
    medical_answers,
    medical_questions,
    reasoning,
    refusals,
    repeated_answers,
    specialties,
    tournaments,
)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What was measured; empty where the data are not there."""

    groups: Sequence[specialties.GroupedOutcome] = ()
    scores: Sequence[repeated_answers.Measured] = ()
    tokens: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    traces: Sequence[reasoning.Measured] = ()
    reasoned: Sequence[reasoning.Reasoned] = ()
    roads: Sequence[cascades.CascadeOutcome] = ()
    alone: Sequence[cascades.Alone] = ()
    refusal_scores: Sequence[refusals.Measured] = ()
    refused: Sequence[refusals.Counted] = ()
    played: Sequence[tournaments.Played] = ()
    told: Sequence[judge_length.Told] = ()
    related: Sequence[judge_length.Related] = ()
    bins: Sequence[judge_length.Bin] = ()


@dataclass(frozen=True, kw_only=True)
class Step:
    name: str
    measure: Callable[[], Mapping[str, Any]]
    """Fields of `Findings`."""


MEDICAL, ARGUMENTS, PREFERENCES = "medical questions", "arguments", "preferences"


def missing(data: Path) -> list[str]:
    """The names of the data that are not in the folder."""
    medical = [(medical_answers.FOLDER, file) for file in (*medical_answers.FILES, *medical_questions.FILES)]
    needed = {
        MEDICAL: medical,
        ARGUMENTS: [tournaments.ARGUMENTS, tournaments.PAIRS],
        PREFERENCES: [tournaments.PREFERENCES, judge_length.LENGTHS, judge_length.INSTRUCTIONS],
    }
    return [name for name, paths in needed.items() if not all(data.joinpath(*path).is_file() for path in paths)]


def steps(data: Path, *, times: int = 200, repetitions: int = 20) -> list[Step]:
    """Of the data that are there. `times` splits or draws where promises are counted, `repetitions` elsewhere."""
    absent = missing(data)
    found = []
    if MEDICAL not in absent:
        found += [
            Step(name="specialties", measure=lambda: _specialties(data, times)),
            Step(name="sampled answers", measure=lambda: _scores(data, repetitions)),
            Step(name="reasoning", measure=lambda: _reasoning(data, repetitions)),
            Step(name="cascades", measure=lambda: _cascades(data, times)),
            Step(name="refusals", measure=lambda: _refusals(data, repetitions)),
        ]
    if ARGUMENTS not in absent and PREFERENCES not in absent:
        found += [
            Step(name="tournaments", measure=lambda: _tournaments(data, repetitions)),
            Step(name="length of answers", measure=lambda: _lengths(data)),
        ]
    return found


def _specialties(data: Path, times: int) -> dict[str, Any]:
    return {"groups": [one for case in specialties.cases(data) for one in specialties.measure(case, times=times)]}


def _scores(data: Path, times: int) -> dict[str, Any]:
    judged = repeated_answers.cases(data)
    return {
        "scores": [one for each in judged for one in repeated_answers.measure(each, times=times)],
        "tokens": repeated_answers.tokens(data),
    }


def _reasoning(data: Path, times: int) -> dict[str, Any]:
    reasoned = [*reasoning.texts(data), *reasoning.counts(data)]
    return {
        "traces": [one for each in reasoned for one in reasoning.measure(each, times=times)],
        "reasoned": reasoned,
    }


def _cascades(data: Path, times: int) -> dict[str, Any]:
    cases = cascade_cases.cases(data)
    return {
        "roads": [one for case in cases for one in cascades.measure(case, times=times)],
        "alone": cascades.alone(cases),
    }


def _refusals(data: Path, times: int) -> dict[str, Any]:
    cases, names = refusals.cases(data)
    return {
        "refusal_scores": [one for case in cases for one in refusals.measure(case, times=times)],
        "refused": [one for case in cases for one in refusals.counted(case, names)],
    }


def _tournaments(data: Path, times: int) -> dict[str, Any]:
    found = []
    for judge, contests in tournaments.arguments(data).items():
        found += tournaments.measure(contests, name="arguments", judge=judge, times=times)
    found += tournaments.measure(
        tournaments.models(data), name="models", judge="gpt4_turbo", times=times, rounds=tournaments.LONGER
    )
    return {"played": found}


def _lengths(data: Path) -> dict[str, Any]:
    lengths = judge_length.read(data)
    return {
        "told": judge_length.told(lengths),
        "related": judge_length.related(lengths),
        "bins": judge_length.bins(lengths),
    }
