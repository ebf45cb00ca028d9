"""Are the promises of a fit kept? Tables for docs/evidence/promises.md, from stored outputs of real models.

python -m benchmarks.real.fitted_promises [--data FOLDER] [--draws 200] [--part NAME ...] [--write FILE]
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.real import chest_xrays, intents, peers, promises, set_promises, six_options, torchcp_sets
from benchmarks.real.document import with_tables
from benchmarks.real.fitted_answers import (
    RULES,
    RULES_OF_MODEL,
    AnswerRows,
    answers_summary,
    answers_table,
    held_table,
    measure,
)
from benchmarks.real.fitted_sets import MultilabelRows, label_share_table, measure_sets, sets_table
from benchmarks.real.predictions import numbered
from benchmarks.real.promises import INTENTS, LANGUAGE_MODELS
from benchmarks.real.set_kinds import SetCase
from benchmarks.real.splits import SEED, halves
from benchmarks.real.tables import table

N_TRAFFIC = 6_000
SPLITS = 20
"""For sets beside those of other libraries, which make the same sets on every split, or do not."""


def language_model_rows(data: Path) -> list[AnswerRows]:
    """Some rows of each model, so that a fit can be judged on all of them a few hundred times."""
    found = []
    for model, (p, classes, _) in _six_options(data).items():
        some = np.random.default_rng(SEED).permutation(len(classes))[:N_TRAFFIC]
        found.append(
            AnswerRows(data=model, probabilities=p[some], classes=classes[some], risks=LANGUAGE_MODELS[model][1:])
        )
    return found


def answer_rows(data: Path) -> list[AnswerRows]:
    read = _intents(data)
    wide = AnswerRows(
        data=f"{INTENTS}, with out of scope", probabilities=read.probabilities, classes=read.classes, risks=(0.05, 0.1)
    )
    return [*language_model_rows(data), wide]


def set_cases(data: Path, kinds: Sequence[str]) -> list[SetCase]:
    read = _intents(data)
    known = read.classes != intents.OUT_OF_SCOPE
    cases = [
        SetCase(data=model, probabilities=p, classes=classes, together=numbered(p), groups=tasks, kinds=tuple(kinds))
        for model, (p, classes, tasks) in _six_options(data).items()
    ]
    return [
        *cases,
        SetCase(
            data=INTENTS,
            probabilities=read.probabilities[known],
            classes=read.classes[known],
            together=read.texts[known],
            groups=read.domains[known],
            kinds=tuple(kind for kind in kinds if kind != "class-conditional"),  # of seven rows each
        ),
    ]


@cache
def _intents(data: Path) -> intents.Intents:
    return intents.read(data)


@cache
def _six_options(data: Path) -> Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    read = {each.model: each for each in six_options.SOURCE.read(data / six_options.SOURCE.folder)}
    found = {}
    for model in LANGUAGE_MODELS:
        tasks = [read[f"{model}, {task}"] for task in six_options.TASKS.values()]
        found[model] = (
            np.concatenate([task.rows.output.probabilities for task in tasks]),
            np.concatenate([task.rows.classes for task in tasks]),
            np.repeat(np.arange(len(tasks)), [len(task) for task in tasks]),
        )
    return found


def answers(data: Path, draws: int) -> dict[str, str]:
    found = [one for rows in answer_rows(data) for one in measure(rows, RULES, draws, SEED)]
    return {"answers in short": answers_summary(found), "answers": answers_table(found)}


def model_answers(data: Path, draws: int) -> dict[str, str]:
    """Language models are asked for the higher target alone; 150 intents leave the correctness model too few events."""
    found = []
    for rows in language_model_rows(data):
        found += measure(replace(rows, risks=rows.risks[-1:]), RULES_OF_MODEL, draws // 2, SEED)
    return {"answers of the model": answers_table(found)}


def held(data: Path, draws: int) -> dict[str, str]:
    return {"held": held_table(answer_rows(data), draws, SEED)}


def sets(data: Path, draws: int) -> dict[str, str]:
    kinds = ("split", "adaptive", "regularised", "class-conditional", "group-conditional")
    found = [one for case in set_cases(data, kinds) for one in measure_sets(case, draws, SEED)]
    return {"sets": sets_table(found)}


def labels(data: Path, draws: int) -> dict[str, str]:
    (read,) = chest_xrays.SOURCE.read(data / chest_xrays.SOURCE.folder)
    rows = MultilabelRows(data="chest X-rays", probabilities=read.rows.output.probabilities, truth=read.rows.truth)
    return {"label share": label_share_table([rows], draws, SEED)}


def beside(data: Path, draws: int) -> dict[str, str]:  # noqa: ARG001 - by splits, and not by draws
    kinds = ("split", "adaptive", "regularised", "class-conditional", "group-conditional")
    others = {
        kind: {
            name: set_promises.Peer(sets=peer.sets, splits=min(peer.splits or SPLITS, SPLITS))
            for name, peer in {**peers.SETS.get(kind, {}), **torchcp_sets.SETS.get(kind, {})}.items()
        }
        for kind in kinds
    }
    rows = []
    for case in set_cases(data, kinds):
        for one in set_promises.measure(case, halves(case.together, times=SPLITS), others):
            same = "" if one.who == set_promises.OURS else f"{one.only_ours:,} / {one.only_here:,}"
            rows.append(
                (
                    one.data,
                    one.kind,
                    f"{1 - one.alpha:g}",
                    one.who,
                    str(len(one.size)),
                    f"{one.coverage.mean():.4f}",
                    f"{one.size.mean():.3f} ± {one.size.std(ddof=1):.3f}",
                    same,
                )
            )
    header = ("data", "sets", "1 - alpha", "by", "splits", "coverage", "labels in a set", "only in ours / theirs")
    return {"beside others": table(header, rows)}


PARTS: Mapping[str, Callable[[Path, int], dict[str, str]]] = {
    "labels": labels,
    "sets": sets,
    "held": held,
    "answers": answers,
    "model": model_answers,
    "beside": beside,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder of stored model outputs")
    parser.add_argument("--draws", type=int, default=promises.TIMES, help="fits of each line")
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="some of the tables")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args(arguments)
    absent = promises.missing(options.data)
    if absent:
        print(f"There are no stored model outputs of {', '.join(absent)} in {options.data}, so nothing is measured.")
        return 0
    if "beside" in options.part and not (peers.are_installed() and torchcp_sets.is_installed()):
        print(f"Sets of other libraries need these: {peers.INSTALL}; {torchcp_sets.INSTALL}. --part leaves them out.")
        return 1
    made: dict[str, str] = {}
    for part in options.part:
        started = time.monotonic()
        made |= PARTS[part](options.data, options.draws)
        print(f"{part}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    if options.write:
        document = options.write.read_text(encoding="utf-8")
        options.write.write_text(with_tables(document, made, partly=True), encoding="utf-8")
        print(f"{options.write} is written.")
    else:
        print("\n\n".join(f"## {name}\n\n{text}" for name, text in made.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
