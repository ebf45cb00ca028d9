"""A selector as the settings of a model ask for it: names looked up, and what does not go together refused."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from demur.policies.all_of import GATES, AllOf, GateRecipe
from demur.policies.cheapest_label import CostLimit, LeastCost
from demur.policies.label_sets import MULTILABEL_SETS, SETS, PredictionSetsRecipe
from demur.policies.prediction import PredictorRecipe
from demur.policies.rules import POLICIES, WITH_LABELS, PolicyRecipe
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.given import check_given, check_names, given_scores
from demur.serve.config.language_recipe import (
    as_hosted,
    check_cascades,
    check_language,
    check_name,
    hosted_sets,
    offered_scores,
    own_probabilities,
    writes,
)
from demur.serve.config.mistake import MOST_TOLD
from demur.serve.config.nearest import did_you_mean, one_of
from demur.serve.config.settings import GatheredMistakes, Mistakes, named, part
from demur.uncertainty.calibrators import CALIBRATORS, FOR_SHARES, CalibratorRecipe
from demur.uncertainty.combination import COMBINATIONS, CombinationRecipe, Logistic
from demur.uncertainty.label_confidence import LABEL_CALIBRATORS, LabelCalibratorRecipe
from demur.uncertainty.scores import ONLY_FOR, SCORES, ScoreRecipe
from demur.uncertainty.trace_scores import Trace

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig


OBSERVE = "observe"
COMPOSED = ("all_of", OBSERVE)
"""Policies that hold another one."""

ANSWERS_ALL: Mapping[str, Any] = {"kind": "threshold", "limit": 0.0}
"""What would be decided where only confidence is to be observed."""


def recipe_of(model: "ModelConfig") -> SelectorRecipe:
    """Return the recipe, or raise `ValueError` in words for whoever wrote the settings: with everything that is wrong
    with one part or another, else with what does not go together."""
    gathered = GatheredMistakes()
    with gathered:
        scores, combinations = _scores(model)
    with gathered:
        policy = _policy(model, *deciding(model))
    with gathered:
        calibrator = _calibrator(model)
    with gathered:
        label_calibrator = _label_calibrator(model)
    gathered.check()
    known = (*scores, *combinations)
    if unknown := sorted(policy.reads - set(known)):
        raise ValueError(
            f"policy: {unknown[0]!r} is not among the scores: {', '.join(known)}{did_you_mean(unknown[0], known)}"
        )
    parts: dict[str, ScoreRecipe | CombinationRecipe] = {**scores, **combinations}
    _check_right(model, policy, [name for name, one in parts.items() if _of_right(one)])
    with gathered:
        predictor = _predictor(model)
    with gathered:
        sets = _sets(model, policy)
    gathered.check()
    recipe = SelectorRecipe(
        scores=scores,
        combinations=combinations,
        confidence_score=model.confidence.score,
        calibrator=calibrator,
        policy=policy,
        predictor=predictor,
        right=model.right,
        sets=sets,
        label_calibrator=label_calibrator,
        sampled=writes(model) and own_probabilities(model) and model.prompt.probabilities == "samples",
        observes=model.policy.get("kind") == OBSERVE,
    )
    check_language(model, recipe)
    check_given(model, "what is configured", recipe.needs, "prediction_set" if recipe.sets else "scores")
    return recipe


def check_follows(first: SelectorRecipe, following: SelectorRecipe) -> None:
    """Raise `ValueError` where the rule of a cascade's first model cannot decide about a model that is asked later."""
    rule = first.rule
    if isinstance(rule, SelectiveRisk) and rule.method == "sgr":
        raise ValueError(
            "sgr ranks the confidences of one model, and a cascade has several; set `method: ltt`, which tests given"
            " limits"
        )
    if missing := sorted(rule.reads - {*following.scores, *following.combinations}):
        raise ValueError(f"the policy looks at {', '.join(missing)}; list it among the scores there as well")
    if rule.acts_on_sets and following.sets is None:
        raise ValueError("the policy acts on prediction sets; add `prediction_set: {kind: risk_control}` there as well")
    if isinstance(rule, CostLimit) and not isinstance(following.predictor, LeastCost):
        raise ValueError("the policy acts on expected costs; give a policy with a `matrix` there as well")


def _scores(model: "ModelConfig") -> tuple[dict[str, ScoreRecipe], dict[str, CombinationRecipe]]:
    check_names(model)
    scores: dict[str, ScoreRecipe] = {}
    combinations: dict[str, CombinationRecipe] = {}
    gathered = GatheredMistakes()
    for at, entry in enumerate(model.scores):
        with gathered:
            _add_score(model, f"scores.{at}", entry, scores, combinations)
    gathered.check()
    for name, mix in combinations.items():
        if missing := [source for source in mix.sources if source not in scores]:
            raise ValueError(f"scores: {name} is made of {', '.join(mix.sources)}; list {', '.join(missing)} as well")
    check_cascades(scores, combinations)
    known = (*scores, *combinations)
    if model.confidence.score not in known:
        raise ValueError(
            f"confidence.score: {model.confidence.score!r} is not among the scores: {', '.join(known)}"
            f"{did_you_mean(model.confidence.score, known)}"
        )
    return scores, combinations


def _add_score(
    model: "ModelConfig",
    place: str,
    entry: Any,
    scores: dict[str, ScoreRecipe],
    combinations: dict[str, CombinationRecipe],
) -> None:
    kind, settings = named(place, entry)
    settings, within = dict(settings), f"{place}.{kind}" if settings else place
    name = settings.pop("as", kind)
    if not isinstance(name, str):
        raise ValueError(f"{within}.as: {name!r} is no name; a name is a text")
    if name in scores or name in combinations:
        raise ValueError(f"{place}: {name!r} is listed twice; give one of them another name with `as`")
    if kind in COMBINATIONS:
        combinations[name] = part(place, COMBINATIONS, kind, settings, within=within)
        return
    check_name(model, kind, place)
    own = given_scores(model)
    if kind in own:
        if settings:
            raise ValueError(f"{within}: {kind} comes with a request and has no settings but `as`")
        scores[name] = own[kind]
        return
    offered = {other: SCORES[other] for other in offered_scores(model)}
    score = part(place, offered, kind, settings, within=within, also=(*own, *COMBINATIONS))
    scores[name] = as_hosted(model, kind, score, place)
    check_given(model, kind, scores[name].needs, place)
    link = model.task.link
    if ONLY_FOR.get(kind, link) != link:
        fitting = [other for other in offered if ONLY_FOR.get(other, link) == link]
        raise ValueError(
            f"{place}: {kind} is not defined for a {model.task.kind} task; these are: {', '.join(fitting)}"
        )


def deciding(model: "ModelConfig") -> tuple[Mapping[str, Any], str]:
    """Return the settings of the policy that decides, or would decide where it only observes, and their place."""
    written = model.policy
    if written.get("kind") != OBSERVE:
        return written, "policy"
    if unknown := [key for key in written if key not in ("kind", "rule")]:
        raise ValueError(f"policy.{unknown[0]}: observe takes a `rule`, a policy that would decide, and nothing else")
    rule = written.get("rule", ANSWERS_ALL)
    if not isinstance(rule, Mapping) or rule.get("kind") == OBSERVE:
        raise ValueError("policy.rule: write the policy that would decide, with its `kind`")
    return rule, "policy.rule"


def _policy(model: "ModelConfig", written: Mapping[str, Any], place: str) -> PolicyRecipe | AllOf:
    settings = dict(written)
    kind = settings.pop("kind", None)
    if kind is None:
        raise ValueError(f"{place}.kind: this key is missing; write one of: {', '.join((*POLICIES, *COMPOSED))}")
    if kind == "all_of":
        return _all_of(model, settings, place)
    if kind == "risk_control":
        settings.pop("alpha", None)  # of its sets
    by_label, with_labels = WITH_LABELS.get(str(kind), ("", None))
    if with_labels is None or by_label not in settings:
        policy: PolicyRecipe = part(f"{place}.kind", POLICIES, kind, settings, within=place, also=COMPOSED)
        return policy
    at, told = f"{place}.{by_label}", settings.pop(by_label)
    if kind == "threshold":
        if model.task.exclusive:
            raise ValueError(f"{at}: limits for labels are for multilabel tasks")
        limit = settings.get("limit", 0.5)
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            raise ValueError(f"{place}.limit: {limit!r} is not a number")
        settings |= {"limit": limit, "limits": _by_label(at, told, model.task.labels, otherwise=limit)}
    rule: PolicyRecipe = part(f"{place}.kind", {str(kind): with_labels}, kind, settings, within=place)
    return rule


def _all_of(model: "ModelConfig", settings: dict[str, Any], within: str) -> AllOf:
    """`all_of` with `gates`, a list of names with settings, and a `rule`, written like any other policy."""
    if set(settings) != {"gates", "rule"}:
        raise ValueError(f"{within}: all_of takes `gates` and `rule`, not: {', '.join(settings) or 'nothing'}")
    entries = settings["gates"]
    if not isinstance(entries, list) or not entries:
        raise ValueError(
            f"{within}.gates: write a list of gates, like `- in_distribution: {{score: ..., quantile: 0.99}}`"
        )
    gates: list[GateRecipe] = []
    gathered = GatheredMistakes()
    for at, entry in enumerate(entries):
        place = f"{within}.gates.{at}"
        with gathered:
            if not isinstance(entry, str | dict):
                raise ValueError(f"{place}: {entry!r} is not a gate; there are: {', '.join(GATES)}")
            name, its_settings = named(place, entry)
            gates.append(part(place, GATES, name, its_settings))
    with gathered:
        if not isinstance(settings["rule"], dict) or settings["rule"].get("kind") in COMPOSED:
            raise ValueError(f"{within}.rule: write a policy with its `kind`, other than {' or '.join(COMPOSED)}")
        rule = _policy(model, settings["rule"], f"{within}.rule")
    gathered.check()
    assert not isinstance(rule, AllOf)
    return AllOf(rule=rule, gates=tuple(gates))


def _rule_settings(model: "ModelConfig") -> Mapping[str, Any]:
    """The settings of the main rule, behind gates or not."""
    written, _ = deciding(model)
    rule: Mapping[str, Any] = written["rule"] if written.get("kind") == "all_of" else written
    return rule


def _rule_place(model: "ModelConfig") -> str:
    written, place = deciding(model)
    return f"{place}.rule" if written.get("kind") == "all_of" else place


def _predictor(model: "ModelConfig") -> PredictorRecipe:
    rule = _rule_settings(model)
    if "matrix" not in rule:
        return model.task.predictor
    matrix, place = rule["matrix"], f"{_rule_place(model)}.matrix"
    if not model.task.exclusive:
        raise ValueError(f"{place}: a matrix of costs is for tasks with one right label")
    labels = model.task.labels
    if not isinstance(matrix, dict) or not set(matrix) >= set(labels):
        raise ValueError(
            f"{place}: write a row of costs for each label that may be predicted: {', '.join(labels[:50])}"
        )
    if unknown := [label for label in matrix if label not in labels]:
        raise ValueError(f"{place}.{unknown[0]}: {one_of(unknown[0], labels)}")
    costs = [_by_label(f"{place}.{label}", matrix[label], labels, otherwise=None) for label in labels]
    try:
        return LeastCost(costs=tuple(costs))
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _by_label(place: str, told: Any, labels: Sequence[str], *, otherwise: float | None) -> tuple[float, ...]:
    """One number for each label, in the order of the task."""
    if not isinstance(told, dict):
        raise ValueError(f"{place}: write a number for each label, like `{{{labels[0]}: 0.5}}`")
    if unknown := [str(label) for label in told if label not in labels]:
        raise Mistakes.of([ValueError(f"{place}.{label}: {one_of(label, labels)}") for label in unknown[:MOST_TOLD]])
    if otherwise is None and (missing := [label for label in labels if label not in told]):
        raise ValueError(f"{place}: there is no number for {', '.join(missing[:5])}")
    if wrong := [name for name, one in told.items() if isinstance(one, bool) or not isinstance(one, int | float)]:
        raise ValueError(f"{place}.{wrong[0]}: {told[wrong[0]]!r} is not a number")
    default = 0.0 if otherwise is None else otherwise
    return tuple(float(told.get(label, default)) for label in labels)


def _calibrator(model: "ModelConfig") -> CalibratorRecipe:
    name, settings = named("confidence.calibrator", model.confidence.calibrator)
    calibrator: CalibratorRecipe = part("confidence.calibrator", CALIBRATORS, name, settings)
    if model.right != "exact" and name not in FOR_SHARES:
        raise ValueError(
            f"confidence.calibrator: {name} is fitted to predictions that are right or wrong, and `right:"
            f" {model.right}` knows degrees; use {' or '.join(sorted(FOR_SHARES))}, or `right: exact`"
        )
    if calibrator.reads == "logits" and not model.task.exclusive:
        raise ValueError(
            f"confidence.calibrator: {name} reads the logits of labels that exclude each other, which those of a"
            " multilabel task do not"
        )
    return calibrator


def _sets(model: "ModelConfig", policy: PolicyRecipe | AllOf) -> PredictionSetsRecipe | None:
    settings = dict(model.prediction_set)
    rule = _rule_settings(model)
    table = SETS if model.task.exclusive else MULTILABEL_SETS
    if rule.get("kind") == "risk_control":
        if model.task.exclusive:
            raise ValueError(
                f"{_rule_place(model)}.kind: risk_control is for multilabel tasks; in others use conformal"
            )
        settings = {"kind": "risk_control", **settings, **({"alpha": rule["alpha"]} if "alpha" in rule else {})}
    if not model.task.exclusive and "kind" not in settings:
        if settings:
            raise ValueError("prediction_set: in a multilabel task `kind: risk_control` comes with these settings")
        if policy.acts_on_sets:
            raise ValueError(
                "policy: it acts on prediction sets; add `prediction_set: {kind: risk_control}`, without which a"
                " multilabel task has none"
            )
        return None
    hosted = hosted_sets(model, settings, policy.acts_on_sets) if model.task.exclusive else settings
    if hosted is None:
        return None
    kind = hosted.pop("kind", "split")
    place = _rule_place(model) if rule.get("kind") == "risk_control" and "alpha" in rule else "prediction_set"
    recipe: PredictionSetsRecipe = part("prediction_set.kind", table, kind, hosted, within=place)
    return recipe


def _label_calibrator(model: "ModelConfig") -> LabelCalibratorRecipe | None:
    if model.task.exclusive:
        if model.label_confidence is not None:
            raise ValueError("label_confidence: this is for multilabel tasks; here confidence is that of the one label")
        return None
    name, settings = named("label_confidence", model.label_confidence or "isotonic")
    recipe: LabelCalibratorRecipe = part("label_confidence", LABEL_CALIBRATORS, name, settings)
    return recipe


def _of_right(recipe: ScoreRecipe | CombinationRecipe) -> bool:
    """Whether it learns from predictions that were right or wrong, and from nothing between."""
    return isinstance(recipe, Logistic) or (isinstance(recipe, Trace) and recipe.learns_from_right)


def _check_right(model: "ModelConfig", policy: PolicyRecipe | AllOf, learners: Sequence[str]) -> None:
    if model.right == "jaccard" and model.task.exclusive:
        raise ValueError("confidence.right: jaccard is for multilabel tasks; one label is right or wrong")
    if model.right == "exact":
        return
    if policy.certifies:
        raise ValueError(
            f"{_rule_place(model)}.kind: {_rule_settings(model)['kind']} counts errors; it needs"
            " `confidence: {right: exact}`"
        )
    if learners:
        raise ValueError(f"scores: {learners[0]} learns from right and wrong; it needs `confidence: {{right: exact}}`")
