"""A small model, then a large one, then a person: what the promise costs in tokens and in people, and whether it holds.

The limit is fitted on draws from real rows, so that the true risk of what it answers is counted over all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.real.predictions import Index
from benchmarks.real.splits import SEED
from demur.policies.cascade import last_words
from demur.policies.decision import Action
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import FitSplit, SelectorRecipe, fit_in_turn
from demur.uncertainty.checks import Array
from demur.uncertainty.isotonic import Isotonic
from demur.uncertainty.output import LabelledOutput
from demur.uncertainty.scores import ScoreRecipe

TIMES = 200
DELTA = 0.1
LABELS = 1000
"""For each fit: half of them for the calibrators, half for the limit."""


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
        parts[stage.model] = FitSplit(statistics=fitted, mixing=fitted, calibration=fitted, rule=stage.rows.rows(rule))
    selectors = fit_in_turn(recipes, parts)
    ended = last_words(
        {stage.model: selector.decide(stage.rows.output) for stage, selector in zip(road, selectors, strict=True)}
    )
    said = np.array([action is Action.ANSWER for action in ended.judgement.decisions.actions])
    return ended.by, said


def _right(rows: LabelledOutput) -> Array:
    return np.asarray(rows.truth[np.arange(len(rows)), rows.output.probabilities.argmax(axis=1)], dtype=np.float64)


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
