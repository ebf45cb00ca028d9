"""Whether sets from samples cover as often as they promise, and answers are as seldom wrong as is promised."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.language.collected import Collected
from benchmarks.language.comparison import Split, quality_of, splits
from benchmarks.real.spread import Spread, over_splits
from demur.policies.decision import Action
from demur.policies.label_sets import seen_by
from demur.policies.selector_recipe import FitSplit
from demur.uncertainty.output import LabelledOutput

SPLITS = 100
RULES = 50
"""Splits on which a rule is fitted."""

ALPHAS = (0.1, 0.05, 0.02)
DELTA = 0.1


@dataclass(frozen=True, kw_only=True)
class Covered:
    task: str
    sets: str
    alpha: float
    metrics: dict[str, Spread]
    """`coverage`, `size`, and the share of sets that are `full` or `empty`."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    task: str
    score: str
    max_risk: float
    wrong: float
    """Share of all replies that are wrong."""

    metrics: dict[str, Spread]
    """`answered`, `risk` of the answered rows of the splits that answer any."""

    feasible: float
    """Share of the splits that answer any."""

    above: float
    """Share of all splits whose measured risk is above the promise. The measured risk is itself an estimate."""


def coverage(about: Collected, *, alphas: Sequence[float] = ALPHAS, times: int = SPLITS) -> list[Covered]:
    """Sets of shares of samples, and sets of probabilities where the model tells them."""
    kinds: list[tuple[str, LabelledOutput, dict[str, object]]] = [("sampled", about.rows, {})]
    kinds += [(f"split, {by}", about.telling(by), {"prompt": {"probabilities": by}}) for by in about.told]
    found = []
    for name, rows, settings in kinds:
        for alpha in alphas:
            kind = name.partition(",")[0]
            scores = ["semantic_entropy"] if kind == "sampled" else ["softmax_response"]
            recipe = about.task.model(scores=scores, prediction_set={"kind": kind, "alpha": alpha}, **settings).recipe
            assert recipe.sets is not None
            seen = seen_by(recipe.sets, rows.output)
            measured = []
            for part in splits(len(about), times=times):
                fit = np.concatenate([part.learn, part.calibrate])
                sets = recipe.sets.fit(seen[fit], rows.classes[fit])
                members = sets.of(seen[part.test])  # every label is on offer in every row
                size = members.sum(axis=1)
                measured.append(
                    {
                        "coverage": float(members[np.arange(len(part.test)), rows.classes[part.test]].mean()),
                        "size": float(size.mean()),
                        "full": float((size == members.shape[1]).mean()),
                        "empty": float((size == 0).mean()),
                    }
                )
            found.append(Covered(task=about.task.name, sets=name, alpha=alpha, metrics=over_splits(measured)))
    return found


def kept(about: Collected, score: str, *, max_risk: float, times: int = RULES) -> Kept:
    """Fit as the service does, the isotonic map on a quarter and the rule on another, and count on the rest."""
    config = about.task.model(
        scores=[about.task.setting(score)],
        policy={"kind": "selective_risk", "max_risk": max_risk, "delta": DELTA},
    )
    right = quality_of(config.recipe, about.rows)
    measured = []
    for part in splits(len(about), times=times):
        answered, risk = _decided(config.recipe, about.rows, right, part)
        measured.append({"answered": answered, "risk": risk})
    risks = np.array([values["risk"] for values in measured])
    some = [values for values in measured if np.isfinite(values["risk"])]
    nothing = {"answered": 0.0, "risk": np.nan}
    return Kept(
        task=about.task.name,
        score=score,
        max_risk=max_risk,
        wrong=float(1 - right.mean()),
        metrics=over_splits(some if len(some) > 1 else [nothing, nothing]),
        feasible=len(some) / len(measured),
        above=float(np.mean(risks > max_risk)),
    )


def _decided(recipe: object, rows: LabelledOutput, right: np.ndarray, part: Split) -> tuple[float, float]:
    calibration, rule = rows.rows(part.learn), rows.rows(part.calibrate)
    selector = recipe.fit(FitSplit(statistics=calibration, mixing=calibration, calibration=calibration, rule=rule))  # type: ignore[attr-defined]
    judged = selector.decide(rows.rows(part.test).output)
    answered = np.array([action is Action.ANSWER for action in judged.decisions.actions])
    if not answered.any():
        return 0.0, float("nan")
    return float(answered.mean()), float(1 - right[part.test][answered].mean())
