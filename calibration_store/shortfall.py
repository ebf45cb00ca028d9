"""What labelled rows are too few, or a score too weak, to carry: said before anything is promised from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from demur.calibration_store.label_advice import LabelAdvice
from demur.calibration_store.reach import Reach, reach_after, reach_before
from demur.calibration_store.rows_apart import RowsApart, TooFewRows, rows_apart
from demur.policies.all_of import AllOf, InDistribution
from demur.policies.conformal import labels_needed
from demur.policies.conformal_sets import ClassConditionalSets, GroupConditionalSets
from demur.policies.graded import GradedRows
from demur.policies.label_share import labels_that_must_hold
from demur.policies.missed_label_sets import MissedLabelSets
from demur.policies.missed_labels import MissedLabelLimit
from demur.policies.prediction import missed_label_limit
from demur.policies.quantiles import rows_needed
from demur.policies.rules import PolicyRecipe
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.policies.threshold import TargetRisk
from demur.uncertainty.checks import Array, Mask

FEWEST_ALLOWED = 3
"""With fewer errors allowed among the rows of a rule, one label more or less moves the limit far."""

FEWEST_ERRORS = 5
"""With fewer errors, or fewer right answers, nobody can tell how a score ranks them (METHODS 9.3)."""


class PromiseOutOfReach(ValueError):
    """The labelled rows cannot carry what the policy or the sets are to promise: fitted on them, it would hold
    everything or rule nothing out. Label more, or promise less; the message says how many would do."""

    reach: "Reach | None" = None
    """What a rule could promise, and at which coverage; None where rows are lacking for something else."""


class RanksAtChance(ValueError):
    """The score that the confidence is made of does not tell errors from right answers. Choose another one."""


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """One thing that the rows cannot carry."""

    of: Literal["rule", "gate", "sets", "labels", "score"]
    """The rule's promise; a gate before it; the promise of the prediction sets; that of the limits of labels; the
    ranking."""

    why: str
    """A sentence that says what would be enough."""

    reach: Reach | None = None
    """What a rule could promise; None where rows are lacking for something else."""


def refuse(shortfalls: Sequence[Shortfall], *, more: str = "") -> None:
    """Raise the error that tells of all of them, if there are any; `more` ends its message."""
    if not shortfalls:
        return
    why = "; ".join(one.why for one in shortfalls) + more
    if all(one.of == "score" for one in shortfalls):
        raise RanksAtChance(why)
    error = PromiseOutOfReach(why)
    error.reach = next((one.reach for one in shortfalls if one.reach), None)
    raise error


@dataclass(frozen=True, kw_only=True)
class ShortfallWeight:
    """What rows cannot carry, in two parts."""

    against: Sequence[Shortfall]
    """Nothing should be stored."""

    beside: Sequence[Shortfall]
    """Worth saying."""


def weighed(shortfalls: Sequence[Shortfall], recipe: SelectorRecipe, *, sets_wanted: bool) -> ShortfallWeight:
    """Tell what speaks against an artifact from what is only worth saying.

    Sets are shown with every answer. Nobody asked for their promise who neither configured them, `sets_wanted`, nor
    decides by them. A policy that only observes promises nothing.
    """
    if recipe.observes:
        return ShortfallWeight(against=[], beside=list(shortfalls))
    wanted = sets_wanted or recipe.policy.acts_on_sets
    against = [one for one in shortfalls if one.of != "sets" or wanted]
    return ShortfallWeight(against=against, beside=[one for one in shortfalls if one not in against])


def known_before(
    recipes: Mapping[str, SelectorRecipe],
    truth: Mask,
    groups: Sequence[str | None] | None,
    *,
    weights: Array | None,
    report_share: float,
    rng: np.random.Generator,
    clusters: NDArray[np.intp] | None = None,
) -> list[Shortfall]:
    """Return what a fit on rows with these labels [n, C] will lack, before a model is run on them.

    `rng` is seeded as that of the fit, so that the same rows are left after thinning. Rows that are too few for any fit
    are left to the fit to refuse.
    """
    try:
        apart = rows_apart(
            len(truth), list(recipes.values()), report_share=report_share, rng=rng, weights=weights, clusters=clusters
        )
    except TooFewRows:
        return []
    return too_few(recipes, apart, truth, groups, report_share=report_share)[0]


def too_few(
    recipes: Mapping[str, SelectorRecipe],
    apart: RowsApart,
    truth: Mask,
    groups: Sequence[str | None] | None,
    *,
    report_share: float,
) -> tuple[list[Shortfall], list[str]]:
    """Return what no outcome of a fit on rows with these labels [n, C] could promise, and remarks on parts of it.

    It needs no model, so it can be known before one is run.
    """
    advice = LabelAdvice(list(recipes.values()), report_share, apart.share_kept)
    found = _of_rule(list(recipes.values()), apart, advice)
    remarks = _of_few_errors(next(iter(recipes.values())).rule, apart) if not found else []
    for name, recipe in recipes.items():
        place = f"model {name}: " if len(recipes) > 1 else ""
        found += _of_labels(recipe, apart, truth, place, advice)
        found += _of_gates(recipe, apart, place, advice)
        if recipe.sets is None:
            continue
        alpha, delta = recipe.sets.alpha, recipe.sets.delta
        if isinstance(recipe.sets, MissedLabelSets) and recipe.sets.share_of == "labels":
            found += _of_label_share(recipe.sets, truth[apart.counted], len(truth), "sets", place)
            continue
        counts, each = _counted(recipe, apart, truth, groups)
        needed = rows_needed(alpha, delta, len(counts) if each else 1)
        scarce = [count for count in counts if count < needed]
        if len(scarce) == len(counts):
            of_each = f" of some {each}" if each else ""
            or_else = "or allow more error" if delta is None else "allow more error, or leave `delta` out"
            why = (
                f"{place}with {max(counts):,} labelled rows{of_each}, prediction sets at {100 * alpha:g}% error"
                f" rule out no label; {needed:,} would do:"
                f" {advice.label(needed, lambda rows: len(rows.counted))}{of_each}, {or_else}"
            )
            found.append(Shortfall(of="sets", why=why))
        elif scarce:
            remarks.append(
                f"{place}{len(scarce)} of {len(counts)} {each}s have fewer than the {needed:,} rows that their"
                f" prediction sets take at {100 * alpha:g}% error, and rule nothing out"
            )
    return found, remarks


def _of_rule(recipes: Sequence[SelectorRecipe], apart: RowsApart, advice: LabelAdvice) -> list[Shortfall]:
    rule = recipes[0].rule
    if not isinstance(rule, SelectiveRisk) or len(apart.rule) >= (needed := rule.labels_needed()):
        return []
    reach = reach_before(recipes, apart.n_plain, advice)
    why = (
        f"with {len(apart.rule):,} labelled rows for the rule no limit can promise at most {100 * rule.max_risk:g}%"
        f" wrong answers at {100 * (1 - rule.delta):g}% confidence; {needed:,} without an error would allow it:"
        f" {reach.advice}"
    )
    return [Shortfall(of="rule", why=why, reach=reach)]


def _of_few_errors(rule: PolicyRecipe, apart: RowsApart) -> list[str]:
    """Say where so few errors are allowed among the rows of a rule that chance decides about its limit."""
    if not isinstance(rule, SelectiveRisk | TargetRisk) or rule.max_risk == 0:
        return []
    n = len(apart.rule)
    allowed = floor(10 * n * rule.max_risk + 1e-9) / 10
    if allowed >= FEWEST_ALLOWED:
        return []
    return [
        f"{100 * rule.max_risk:g}% of {n:,} rows for the rule is {allowed:g} errors, so a single label may decide the"
        f" limit: {ceil(FEWEST_ALLOWED / rule.max_risk):,} rows for it would allow {FEWEST_ALLOWED}"
    ]


def broken(
    recipes: Mapping[str, SelectorRecipe],
    rows: GradedRows,
    why: str,
    apart: RowsApart,
    *,
    n_labels: int,
    report_share: float,
) -> Shortfall:
    """Return the shortfall of a rule that promises nothing though its `rows` are not too few: too many are wrong."""
    listed = list(recipes.values())
    if not isinstance(listed[0].rule, SelectiveRisk):
        return Shortfall(of="rule", why=why)
    reach = reach_after(listed, rows, apart.n_plain, n_labels, LabelAdvice(listed, report_share, apart.share_kept))
    return Shortfall(of="rule", why=f"{why}: {reach.advice}", reach=reach)


def _of_gates(recipe: SelectorRecipe, apart: RowsApart, place: str, advice: LabelAdvice) -> list[Shortfall]:
    """A gate whose quantile lies beyond all rows would stop nothing, however strange."""
    found = []
    for gate in recipe.policy.gates if isinstance(recipe.policy, AllOf) else ():
        if not isinstance(gate, InDistribution) or gate.quantile is None:
            continue
        if len(apart.counted) < (needed := labels_needed(1 - gate.quantile)):
            why = (
                f"{place}with {len(apart.counted):,} labelled rows the gate of {gate.score} at quantile"
                f" {gate.quantile:g} stops nothing; {needed:,} would do:"
                f" {advice.label(needed, lambda rows: len(rows.counted))}, or lower its quantile"
            )
            found.append(Shortfall(of="gate", why=why))
    return found


def _of_label_share(
    asked: MissedLabelSets | MissedLabelLimit, truth: Mask, n: int, of: Literal["sets", "labels"], place: str
) -> list[Shortfall]:
    """Too few labels hold in the rows that count, [m, L] of `n` labelled ones, for any share to be promised."""
    most = truth.shape[1] if asked.max_labels is None else asked.max_labels
    held, needed = int(truth.sum()), labels_that_must_hold(asked.alpha, most)
    if held >= needed:
        return []
    more = f"label about {ceil(n * needed / held):,} rows" if held else "label rows in which labels hold"
    why = (
        f"{place}{held:,} labels hold in the {len(truth):,} rows that count for the"
        f" {'prediction sets' if of == 'sets' else 'limits of labels'}; {needed:,} are needed to promise that at most"
        f" {100 * asked.alpha:g}% of them are missed: {more}, allow more"
        + (", or" if most == 1 else ",")
        + " write `share_of: rows`"
        + ("" if most == 1 else f", or say with max_labels that no input can have {most:,} labels")
    )
    return [Shortfall(of=of, why=why)]


def _of_labels(
    recipe: SelectorRecipe, apart: RowsApart, truth: Mask, place: str, advice: LabelAdvice
) -> list[Shortfall]:
    alpha = recipe.predictor.alpha
    limits = missed_label_limit(recipe.predictor)
    if limits is not None and limits.share_of == "labels":
        return _of_label_share(limits, truth[apart.statistics], len(truth), "labels", place)
    if alpha is None or len(apart.statistics) >= (needed := labels_needed(alpha)):
        return []
    why = (
        f"{place}{len(apart.statistics):,} labelled rows cannot show that at most {100 * alpha:g}% of the labels are"
        f" missed; {needed:,} would do: {advice.label(needed, lambda rows: len(rows.statistics))}"
    )
    return [Shortfall(of="labels", why=why)]


def _counted(
    recipe: SelectorRecipe, apart: RowsApart, truth: Mask, groups: Sequence[str | None] | None
) -> tuple[list[int], str]:
    """How many rows the sets have: of each label or group, where they promise something of each."""
    if isinstance(recipe.sets, ClassConditionalSets):
        return truth[apart.counted].sum(axis=0).tolist(), "label"
    if isinstance(recipe.sets, GroupConditionalSets) and groups is not None and any(groups):
        named = np.array([group or "" for group in groups])[apart.counted]
        return np.unique(named, return_counts=True)[1].tolist(), "group"
    return [len(apart.counted)], ""


def at_chance(score: str, ranking: Mapping[str, Any], *, bad: str = "errors") -> tuple[list[Shortfall], list[str]]:
    """Judge how a score ranked the errors, or whatever is `bad`, among rows outside of the fit.

    `ranking` has `value`, `lower` and `upper` of the area under the ROC curve, and the `errors` among `n` rows.
    """
    n, errors = ranking["n"], ranking["errors"]
    if min(errors, n - errors) < FEWEST_ERRORS:
        few, count = (bad, errors) if errors <= n - errors else ("right answers", n - errors)
        return [], [
            f"too few {few} to tell whether {score} ranks {bad}: {count:,} among the {n:,} rows that were reported on"
        ]
    if ranking["lower"] > 0.5:
        return [], []
    interval = f"AUROC {ranking['value']:.2f}, {ranking['lower']:.2f} to {ranking['upper']:.2f}"
    why = f"{score} ranks {bad} no better than chance ({interval}): choose another score, or label more rows"
    return [Shortfall(of="score", why=why)], []
