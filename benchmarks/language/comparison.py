"""Every score of a task by itself: how it ranks errors, how its confidence holds once calibrated, and what it costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.language.collected import Collected, Cost
from benchmarks.language.tasks import OF_PROBABILITIES
from benchmarks.real.noise_floor import noise_floor
from benchmarks.real.spread import Spread, over_splits
from demur.audit.metrics.calibration import ece
from demur.audit.metrics.discrimination import error_roc_auc
from demur.audit.metrics.selective import prr
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty import combination, scores
from demur.uncertainty.checks import Array, InvalidInput
from demur.uncertainty.combination import CombinationRecipe
from demur.uncertainty.correctness import jaccard_similarity
from demur.uncertainty.generation import as_column
from demur.uncertainty.isotonic import fit_isotonic
from demur.uncertainty.output import LabelledOutput, Output
from demur.uncertainty.scores import ScoreRecipe

SEED = 20261121
TIMES = 20
DRAWS = 10
"""For the floor of the ECE."""

LEVEL = "level of the exercise"
"""What no model knows of an input: a yardstick, and no score."""

NOTHING = Cost(calls=0, prompt_tokens=0, completion_tokens=0, seconds=0, cpu_seconds=0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Rows that share no row with each other."""

    learn: NDArray[np.intp]
    """A quarter: for scores that are fitted."""

    calibrate: NDArray[np.intp]
    """A quarter: for isotonic maps, and for rules."""

    test: NDArray[np.intp]
    """A half."""


@dataclass(frozen=True, kw_only=True)
class Line:
    task: str
    score: str
    asks: str
    """What it is made of: a key of `Collected.costs`, or nothing."""

    metrics: Mapping[str, Spread]
    missing: float
    """Share of the rows without a score. They are held, and are no part of the metrics."""

    cost: Cost


def splits(n: int, *, times: int = TIMES, seed: int = SEED) -> list[Split]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(times):
        order = rng.permutation(n)
        found.append(Split(learn=order[: n // 4], calibrate=order[n // 4 : n // 2], test=order[n // 2 :]))
    return found


def quality_of(recipe: SelectorRecipe, rows: LabelledOutput) -> Array:
    """1 where the prediction was right, all of it; else 0."""
    return recipe.quality(recipe.predictor.fit(rows.output.probabilities, rows.truth), rows)


def compared(about: Collected, *, times: int = TIMES) -> list[Line]:
    """Every score that the task has, on the same splits: whether the first reply was right."""
    recipe = about.task.model().recipe
    right = quality_of(recipe, about.rows)
    shared = (
        None if about.rows.exclusive else jaccard_similarity(about.rows.output.probabilities > 0.5, about.rows.truth)
    )
    parts = splits(len(about), times=times)
    rng = np.random.default_rng(SEED)
    lines = []
    for name, asks, values in _values(about, recipe, right, parts):
        known = np.isfinite(values)
        measured = [_on(part, values[at], right, shared, known[at], rng) for at, part in enumerate(parts)]
        lines.append(
            Line(
                task=about.task.name,
                score=name,
                asks=asks,
                metrics=over_splits(measured),
                missing=float(1 - known.mean()),
                cost=about.costs.get(asks, NOTHING),
            )
        )
    return lines


def fixed_scores(about: Collected) -> dict[str, Array]:
    """The scores that have nothing to fit, [n] each, by name."""
    recipe = about.task.model().recipe
    right = quality_of(recipe, about.rows)
    return {
        name: one.fit(about.rows, right).of(about.rows.output)
        for name, one in recipe.scores.items()
        if not scores.learns(one)
    }


def unfitted(about: Collected) -> dict[str, Array]:
    """The same, and the combinations that have nothing to fit."""
    values = fixed_scores(about)
    mixes = about.task.model().recipe.combinations
    return values | {
        name: mix.fit(values, np.zeros(len(about))).of(values)
        for name, mix in mixes.items()
        if not combination.learns(mix)
    }


def with_samples(rows: LabelledOutput, n: int) -> LabelledOutput:
    """The same with the first `n` samples alone."""
    assert rows.output.replies is not None
    cut = [replace(replies, samples=replies.samples[:n]) for replies in rows.output.replies]
    return replace(rows, output=replace(rows.output, replies=as_column(cut)))


def _values(
    about: Collected, recipe: SelectorRecipe, right: Array, parts: list[Split]
) -> Iterator[tuple[str, str, Array]]:
    """Name, what it asks for, and its values on all rows, [splits, n]."""
    times = len(parts)
    fixed = fixed_scores(about)
    asks = {name: "samples" if "samples" in one.needs else "first" for name, one in recipe.scores.items()}

    def same(values: Array) -> Array:
        return np.broadcast_to(values, (times, len(values)))

    for name, one in recipe.scores.items():
        if name in fixed:
            yield name, asks[name], same(fixed[name])
        else:
            yield name, asks[name], np.stack([_learnt(one, about, right, part) for part in parts])
    for name, mix in recipe.combinations.items():
        dear = "samples" if any(asks[source] == "samples" for source in mix.sources) else "first"
        if not combination.learns(mix):
            yield name, dear, same(mix.fit(fixed, right).of(fixed))
            continue
        yield name, dear, np.stack([_mixed(mix, fixed, right, part) for part in parts])
    for by in about.told:
        output: Output = about.telling(by).output
        telling = about.task.model(scores=OF_PROBABILITIES, prompt={"probabilities": by}).recipe
        for name, one in telling.scores.items():
            yield f"{name}, {by}", by, same(one.fit(about.telling(by), right).of(output))
    yield LEVEL, "", same(about.levels.astype(np.float64))


def _learnt(one: ScoreRecipe, about: Collected, right: Array, part: Split) -> Array:
    """[n]; unknown where too few rows are there to learn from, or all of them were right."""
    try:
        return one.fit(about.rows.rows(part.learn), right[part.learn]).of(about.rows.output)
    except InvalidInput:
        return np.full(len(about), np.nan)


def _mixed(mix: CombinationRecipe, values: Mapping[str, Array], right: Array, part: Split) -> Array:
    """The same of a combination."""
    try:
        return mix.fit({name: values[name][part.learn] for name in mix.sources}, right[part.learn]).of(values)
    except InvalidInput:
        return np.full(len(right), np.nan)


def _on(
    part: Split, u: Array, right: Array, shared: Array | None, known: NDArray[np.bool_], rng: np.random.Generator
) -> dict[str, float]:
    names = ("PRR", "AUROC", "ECE after", "floor", "PRR Jaccard")
    test, fit = part.test[known[part.test]], part.calibrate[known[part.calibrate]]
    if not len(test) or not len(fit):
        return dict.fromkeys(names, np.nan)
    here, score = right[test], u[test]
    confidence = fit_isotonic(-u[fit], right[fit]).confidence(-score)
    found = (
        prr(here, score),
        error_roc_auc(here, score),
        ece(confidence, here),
        noise_floor(ece, confidence, draws=DRAWS, rng=rng),
        np.nan if shared is None else prr(shared[test], score),
    )
    return dict(zip(names, found, strict=True))
