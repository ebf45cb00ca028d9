"""What a rule could promise where it cannot promise what was asked, and which settings would help."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, log10
from typing import Any

import numpy as np

from demur.calibration_store.label_advice import LabelAdvice, for_rule
from demur.policies.all_of import AllOf
from demur.policies.graded import GradedRows
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.policies.threshold import PromisedScoreLimit, Threshold

TARGETS = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Shares of wrong answers that a curve tells of, beside the one that was asked for."""

SHARES = (0.3, 0.2, 0.1)
"""Shares of the rows to report on that are tried where the configured one is larger."""

GROWTH = 1.25
"""How much larger each number of labels is that is tried than the one before it."""

MOST_LARGER = 64
"""More than so many times the labels are not advised: errors this near to the target hang on chance."""

FEWEST_BEHIND = 20
"""A limit that answers fewer of the rows there are is luck, and nothing to plan with."""

MOST_TRIED = 300_000
"""Rows of a rule are repeated up to this number, so that the search stays a matter of seconds."""


@dataclass(frozen=True, kw_only=True)
class ReachPoint:
    """What could be promised."""

    max_risk: float
    """At most this share of the answers is wrong."""

    answered: float | None
    """The share of the labelled rows that would be answered, 0 where nothing would. None: the model was not run."""

    labels: int | None = None
    """So many labelled rows would do, if no answer to them is wrong. None: the model was run."""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """What could be promised from these rows, and what would have to change for what was asked.

    Each line of the curve is a promise by itself, as sure as `delta` says. To choose one after seeing all of them is a
    choice by the same labels, so the chance that it is broken may be larger.
    """

    max_risk: float
    delta: float
    method: str
    n: int
    """Rows that carry the promise."""

    labels: int | None
    """About so many labelled rows would do: if none is wrong, or, where the model was run, if errors stay as they are.
    None: no number of them seems to."""

    settings: Sequence[str]
    """Changes of one setting, each of which would do, as they are written in the configuration."""

    curve: Sequence[ReachPoint]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def advice(self) -> str:
        """What to do, as the end of a sentence."""
        if self.labels is None:
            more = "choose a score that ranks errors better, as more labels alone would hardly do"
        elif self.curve and self.curve[0].labels is not None:
            more = f"label at least {self.labels:,} rows"
        else:
            more = f"label about {self.labels:,} rows, if errors stay as they are"
        return ", or ".join([more, *(f"write {one}" for one in self.settings)])


def reach_before(recipes: Sequence[SelectorRecipe], n_plain: int, advice: LabelAdvice) -> Reach:
    """Return what so many rows could promise at best, that is if no answer is wrong."""
    rule = _rule(recipes)
    n = advice.gets(for_rule, n_plain)

    def able(one: SelectiveRisk, rows: int) -> bool:
        return rows >= one.labels_needed()

    def labels(target: float) -> int:
        return advice.needed(replace(rule, max_risk=target).labels_needed(), for_rule)

    targets = _targets(rule)
    return Reach(
        max_risk=rule.max_risk,
        delta=rule.delta,
        method=rule.method,
        n=n,
        labels=labels(rule.max_risk),
        settings=[*_settings(recipes, n_plain, advice, able), *_target(rule, lambda one: able(one, n))],
        curve=[ReachPoint(max_risk=target, answered=None, labels=labels(target)) for target in targets],
    )


def reach_after(
    recipes: Sequence[SelectorRecipe], rows: GradedRows, n_plain: int, n_labels: int, advice: LabelAdvice
) -> Reach:
    """Return what the rule could promise on the rows that it was fitted on.

    What other numbers of rows would do is judged on these rows, taken more or less often each: errors are then at the
    same places of the ranking. Other methods are not advised where the rule ranks the score: they go by confidences,
    and those of these rows may come from their own labels.
    """
    rule = _rule(recipes)
    order = np.argsort(rows.ranked().surest, kind="stable")

    def able(one: SelectiveRisk, n: int) -> bool:
        if n < one.labels_needed():
            return False
        fitted = one.fit(rows.rows(order[np.arange(n) * len(rows) // n]))
        return _answered(fitted, rows) >= FEWEST_BEHIND

    def answered(target: float) -> float:
        return _answered(replace(rule, max_risk=target).fit(rows), rows) / len(rows)

    enough = next((n for n in _larger(len(rows)) if able(rule, n)), None)
    return Reach(
        max_risk=rule.max_risk,
        delta=rule.delta,
        method=rule.method,
        n=len(rows),
        labels=None if enough is None else _rounded_up(n_labels * enough / len(rows)),
        settings=[
            *_settings(recipes, n_plain, advice, able, other_methods=not rows.by_score),
            *_target(rule, lambda one: able(one, len(rows))),
        ],
        curve=[ReachPoint(max_risk=target, answered=answered(target)) for target in _targets(rule)],
    )


def _answered(fitted: Threshold | PromisedScoreLimit, rows: GradedRows) -> int:
    """How many of the rows a fitted rule answers."""
    if isinstance(fitted, PromisedScoreLimit):
        return int((rows.ranked().surest >= -fitted.limit).sum())
    return int((rows.surest >= fitted.limit).sum())


def _rule(recipes: Sequence[SelectorRecipe]) -> SelectiveRisk:
    rule = recipes[0].rule
    assert isinstance(rule, SelectiveRisk)
    return rule


def _targets(rule: SelectiveRisk) -> list[float]:
    return sorted({rule.max_risk, *(target for target in TARGETS if target > rule.max_risk)})


def _target(rule: SelectiveRisk, able: Callable[[SelectiveRisk], bool]) -> list[str]:
    """The smallest share of wrong answers that could be promised."""
    return [f"`max_risk: {target:g}`" for target in _targets(rule)[1:] if able(replace(rule, max_risk=target))][:1]


def _settings(
    recipes: Sequence[SelectorRecipe],
    n_plain: int,
    advice: LabelAdvice,
    able: Callable[[SelectiveRisk, int], bool],
    *,
    other_methods: bool = True,
) -> Iterator[str]:
    """Other methods, then other shares of the rows to report on."""
    rule, first = _rule(recipes), recipes[0]
    for method in ("sgr", "ltt", "ltt_fixed_sequence") if other_methods else ():
        if method == rule.method or (method == "sgr" and (len(recipes) > 1 or rule.bets)):
            continue
        other = replace(rule, method=method)
        policy = replace(first.policy, rule=other) if isinstance(first.policy, AllOf) else other
        changed = replace(advice, recipes=[replace(first, policy=policy), *recipes[1:]])
        if able(other, changed.gets(for_rule, n_plain)):
            yield f"`method: {method}`"
    for share in SHARES:
        changed = replace(advice, report_share=share)
        if share < advice.report_share and able(rule, changed.gets(for_rule, n_plain)):
            yield f"`calibration: {{report_share: {share:g}}}`"
            return


def _larger(n: int) -> Iterator[int]:
    size = n * GROWTH
    while size <= min(MOST_LARGER * n, MOST_TRIED):
        yield int(size)
        size *= GROWTH


def _rounded_up(n: float) -> int:
    """With two significant digits, as it is no more than a guess."""
    unit = 10 ** max(0, floor(log10(n)) - 1)
    return int(ceil(n / unit) * unit)
