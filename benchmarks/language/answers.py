"""How often the model is right, by level and by the way in which it is asked; and what it says of itself."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.language.collected import Collected, Cost
from benchmarks.language.comparison import SEED, fixed_scores, quality_of
from demur.audit.metrics.discrimination import error_roc_auc
from demur.policies.decision import Action
from demur.policies.selector_recipe import FitSplit
from demur.serve.hosts.language.matching import is_right
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.generation import Replies, as_column
from demur.uncertainty.sampled_scores import same_text
from deploy.models.sums.exercises import LEVELS

FEW = 15
"""Errors, or right answers, below which no AUROC is told."""


@dataclass(frozen=True, kw_only=True)
class Level:
    task: str
    level: int
    n: int
    right: float
    aurocs: Mapping[str, float]
    """By score, within the level; NaN where there are too few errors."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Shares of the exercises of a task that are right, by whose answer is taken."""

    task: str
    n: int
    first: float
    majority: float
    """Most frequent sample, the first to come where several are."""

    samples: float
    """A sample, on average."""

    agree: float
    """How often the majority is the first reply."""

    unread: float
    """Share of the samples that could not be read."""

    told: Mapping[str, tuple[float, float]]
    """By `prompt.probabilities`: the share that is right, and how often it is the first reply."""


@dataclass(frozen=True, kw_only=True)
class SelfReport:
    task: str
    need: str
    n: int
    understood: float
    """Share of the replies that were taken for a number, or for confidences."""

    auroc: float
    """Of errors, where something was understood; NaN where too little was."""

    examples: Sequence[str]
    """The most frequent readings."""

    outcome: str
    """What becomes of it where the confidence is to come from it: fitted on a half, asked about the others."""

    cost: Cost


def by_level(about: Collected, scores: Sequence[str]) -> list[Level]:
    right = quality_of(about.task.model().recipe, about.rows)
    values = fixed_scores(about)
    found = []
    for level in LEVELS:
        rows = about.levels == level
        errors = int((1 - right[rows]).sum())
        enough = min(errors, int(rows.sum()) - errors) >= FEW
        aurocs = {name: error_roc_auc(right[rows], values[name][rows]) if enough else np.nan for name in scores}
        found.append(
            Level(task=about.task.name, level=level, n=int(rows.sum()), right=float(right[rows].mean()), aurocs=aurocs)
        )
    return found


def answers(about: Collected) -> Answers:
    recipe = about.task.model().recipe
    first = quality_of(recipe, about.rows)
    assert about.rows.output.replies is not None
    replies: list[Replies] = about.rows.output.replies.tolist()
    majority, sampled, agree = [], [], []
    for at, one in enumerate(replies):
        readings = [same_text(said) for said in one.samples]
        rights = [_is_right(about, said, at) for said in readings]
        counts = Counter(said for said in readings if said is not None)
        top = counts.most_common(1)[0][0] if counts else None
        majority.append(rights[readings.index(top)] if top is not None else 0.0)
        sampled.append(float(np.mean(rights)))
        agree.append(top == same_text(one.said))
    told = {}
    for by in about.told:
        rows = about.telling(by)
        same = rows.output.probabilities.argmax(axis=1) == about.rows.output.probabilities.argmax(axis=1)
        told[by] = (float(quality_of(recipe, rows).mean()), float(same.mean()))
    return Answers(
        task=about.task.name,
        n=len(about),
        first=float(first.mean()),
        majority=float(np.mean(majority)),
        samples=float(np.mean(sampled)),
        agree=float(np.mean(agree)),
        unread=float(np.mean([said is None for one in replies for said in one.samples])),
        told=told,
    )


def self_reports(about: Collected) -> list[SelfReport]:
    right = quality_of(about.task.model().recipe, about.rows)[about.judged]
    found = []
    for need, replies in about.asked.items():
        if need == "rating":
            said = [None if one.rating is None else 1 - one.rating for one in replies]
        else:
            said = [float(np.mean([1 - c for c in one.stated.values()])) if one.stated else None for one in replies]
        known = np.array([value is not None for value in said])
        u = np.array([np.nan if value is None else value for value in said])
        errors = int((1 - right[known]).sum())
        enough = min(errors, int(known.sum()) - errors) >= FEW
        common = Counter(f"{1 - value:g}" for value in said if value is not None).most_common(3)
        found.append(
            SelfReport(
                task=about.task.name,
                need=need,
                n=len(replies),
                understood=float(known.mean()),
                auroc=error_roc_auc(right[known], u[known]) if enough else np.nan,
                examples=[text for text, _ in common],
                outcome=_outcome(about, need, replies),
                cost=about.costs[need],
            )
        )
    return found


def _outcome(about: Collected, need: str, replies: Sequence[Replies]) -> str:
    rows = about.rows.rows(about.judged)
    rows = replace(rows, output=replace(rows.output, replies=as_column(list(replies))))
    score = "rating" if need == "rating" else "self_verbalised"
    order = np.random.default_rng(SEED).permutation(len(rows))
    fit, test = rows.rows(order[: len(rows) // 2]), rows.rows(order[len(rows) // 2 :])
    try:
        parts = FitSplit(statistics=fit, mixing=fit, calibration=fit, rule=fit)
        judged = about.task.model(scores=[score]).recipe.fit(parts).decide(test.output)
    except InvalidInput:
        return "no fit: unknown in all of the rows"
    answered = np.array([action is Action.ANSWER for action in judged.decisions.actions])
    known = np.isfinite(judged.scores[score])
    assert not answered[~known].any()
    return f"holds the unknown, answers {answered[known].mean():.0%} of the rest"


def _is_right(about: Collected, said: Any, row: int) -> float:
    """Of one reading of a sample."""
    if said is None:
        return 0.0
    task = about.config
    if task.kind == "generate":
        return float(is_right(said, str(about.labels[row]), task.match))
    named = np.zeros(about.rows.truth.shape[1], dtype=bool)
    named[list(said) if isinstance(said, tuple) else [said]] = True
    return float((named == about.rows.truth[row]).all())
