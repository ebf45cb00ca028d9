"""Samples that need not be drawn, because no further ones could change the decision: run for real, both ways."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.language.collected import Advance, Collected, Cost, in_chunks, inputs_of
from demur.policies.decision import Action
from demur.policies.selector_recipe import FitSplit
from demur.serve.hosts.language.budget import more
from demur.serve.hosts.offline import OfflineModel
from demur.uncertainty.output import Need
from demur.uncertainty.readings import with_sample_probabilities
from deploy.models.sums.exercises import LEVELS, Exercise, exercises

SAMPLES = {"min": 2, "max": 10, "stop": "decision"}
SEED = 12
"""Of exercises that nothing was fitted on."""

WAYS: Mapping[str, dict[str, Any]] = {
    "reply": {"scores": ["semantic_entropy"]},
    "samples": {"scores": ["softmax_response"], "prompt": {"probabilities": "samples"}},
}
"""By `prompt.probabilities`: whether the prediction is the first reply, or what is sampled most often."""

NEEDS: frozenset[Need] = frozenset({"reply", "samples"})


@dataclass(frozen=True, kw_only=True)
class Stopped:
    task: str
    probabilities: str
    n: int
    most: int
    drawn: float
    """Samples of an exercise, on average."""

    early: float
    """Share of the exercises for which fewer than all were drawn."""

    answered: float
    same: int
    """Exercises with the same action and the same prediction as if all had been drawn."""

    stopping: Cost
    drawing_all: Cost


def n_rows(each: int) -> int:
    return 2 * len(WAYS) * len(LEVELS) * each


def stopped(about: Collected, folder: Path, *, each: int, advance: Advance) -> list[Stopped]:
    """`each` further exercises of every level, with a selector that was fitted on what was collected."""
    path = folder / f"{about.task.name}-stops.json"
    facts = {"each": each, "collected": len(about), "samples": SAMPLES, "seed": SEED}
    if path.exists() and (stored := json.loads(path.read_text(encoding="utf-8")))["facts"] == facts:
        advance(n_rows(each))
        return [
            Stopped(**{**one, "stopping": Cost(**one["stopping"]), "drawing_all": Cost(**one["drawing_all"])})
            for one in stored["found"]
        ]
    known = {exercise.prompt for exercise in about.task.exercises()}
    todo = [
        exercise
        for level in LEVELS
        for exercise in [
            one for one in exercises(about.task.name, level, len(about) + each, seed=SEED) if one.prompt not in known
        ][:each]
    ]
    found = [_by(about, by, todo, advance) for by in WAYS]
    path.write_text(json.dumps({"facts": facts, "found": [asdict(one) for one in found]}), encoding="utf-8")
    return found


def _by(about: Collected, by: str, todo: Sequence[Exercise], advance: Advance) -> Stopped:
    config = about.task.model(**WAYS[by], samples=SAMPLES)
    rows = about.rows
    if by == "samples":
        rows = replace(rows, output=with_sample_probabilities(rows.output))
    selector = config.recipe.fit(FitSplit(statistics=rows, mixing=rows, calibration=rows, rule=rows))
    model = OfflineModel(config)
    try:
        inputs = inputs_of(todo, model)
        stop, stop_seconds = in_chunks(model, inputs, NEEDS, advance, more=more([selector], config.samples))
        full, full_seconds = in_chunks(model, inputs, NEEDS, advance)
    finally:
        model.close()
    assert stop.replies is not None
    assert full.replies is not None
    early, late = selector.decide(stop.only(selector.needs)), selector.decide(full.only(selector.needs))
    same = [a is b for a, b in zip(early.decisions.actions, late.decisions.actions, strict=True)]
    alike = np.array(same) & (early.predicted == late.predicted).all(axis=1)
    drawn = np.array([len(one.samples) for one in stop.replies])
    most = config.samples.max
    return Stopped(
        task=about.task.name,
        probabilities=by,
        n=len(todo),
        most=most,
        drawn=float(drawn.mean()),
        early=float((drawn < most).mean()),
        answered=float(np.mean([action is Action.ANSWER for action in late.decisions.actions])),
        same=int(alike.sum()),
        stopping=Cost.of(stop.replies.tolist(), stop_seconds),
        drawing_all=Cost.of(full.replies.tolist(), full_seconds),
    )
