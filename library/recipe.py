"""The selector that plain settings ask for: names looked up, and what does not go together refused.

The service reads such settings from YAML, and `SelectiveClassifier` takes them as arguments. The words are the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from demur.library.nearest import did_you_mean, one_of
from demur.library.settings import GatheredMistakes, Mistakes, named, part
from demur.policies.all_of import GATES, AllOf, GateRecipe
from demur.policies.cheapest_label import LeastCost
from demur.policies.closed_labels import LimitsRecipe
from demur.policies.label_sets import MULTILABEL_SETS, SETS, PredictionSetsRecipe
from demur.policies.prediction import LABEL_LIMITS, PredictorRecipe
from demur.policies.rules import POLICIES, WITH_LABELS, PolicyRecipe
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.uncertainty.calibrators import CALIBRATORS, FOR_SHARES, OF_ANSWERS, CalibratorRecipe
from demur.uncertainty.checks import InvalidInput, fraction
from demur.uncertainty.combination import COMBINATIONS, CombinationRecipe, Logistic
from demur.uncertainty.label_calibrators import LABEL_CALIBRATORS
from demur.uncertainty.label_confidence import LabelCalibratorRecipe
from demur.uncertainty.output import Link
from demur.uncertainty.scores import ONLY_FOR, SCORES, ScoreRecipe

MOST_NAMED = 20
"""Unknown labels that are named in one message."""

OBSERVE = "observe"
COMPOSED = ("all_of", OBSERVE)
"""Policies that hold another one."""

ANSWERS_ALL: Mapping[str, Any] = {"kind": "threshold", "limit": 0.0}
"""What would be decided where only confidence is to be observed."""

Named = str | Mapping[str, Mapping[str, Any]]
"""A name, or one name with its settings."""


class Task(Protocol):
    """What is decided between."""

    @property
    def kind(self) -> str:
        """`binary`, `multiclass` or `multilabel`; `choice` and `generate` are for language models."""
        ...

    @property
    def exclusive(self) -> bool:
        """Whether exactly one label is right."""
        ...

    @property
    def link(self) -> Link: ...

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def predictor(self) -> PredictorRecipe:
        """Which labels are predicted, where no costs say otherwise."""
        ...


class ModelAbilities(Protocol):
    """What a kind of model can give to a selector."""

    @property
    def sampled(self) -> bool:
        """Whether its probabilities are themselves frequencies of sampled replies."""
        ...

    def offered_scores(self) -> list[str]:
        """The names of the scores that suit it."""
        ...

    def own_scores(self) -> Mapping[str, ScoreRecipe]:
        """Scores that only this model has, by name; they have no settings."""
        ...

    def check_name(self, kind: str, place: str) -> None:
        """Raise `ValueError` for a score that it cannot have, before the score's settings are looked at."""
        ...

    def suited(self, kind: str, score: ScoreRecipe, place: str) -> ScoreRecipe:
        """Return the score as it is computed for this model. Raise `ValueError` where the model lacks what it needs."""
        ...

    def sets(self, settings: Mapping[str, Any], acts_on_sets: bool) -> dict[str, Any] | None:
        """Return the settings of the prediction sets of a task with one right label. None: there are no sets, and the
        predicted label takes their place."""
        ...


@dataclass(frozen=True, kw_only=True)
class SelectorSettings:
    """Everything that a selector is made of, in plain values."""

    task: Task
    model: ModelAbilities
    scores: Sequence[Named]
    confidence_score: str
    """The name of one of the scores."""

    policy: Mapping[str, Any]
    """`kind`, and the settings of that kind."""

    calibrator: Named = "isotonic"
    right: str = "exact"
    """Which of `QUALITIES` says how right a prediction was."""

    prediction_set: Mapping[str, Any] = field(default_factory=dict)
    label_confidence: Named | None = None
    """How the probabilities of the most probable labels of a multilabel task are calibrated."""


def selector_recipe(model: SelectorSettings) -> SelectorRecipe:
    """Return the recipe, or raise `ValueError` in words for whoever wrote the settings: with everything that is wrong
    with one part or another, else with what does not go together."""
    gathered = GatheredMistakes()
    with gathered:
        scores, combinations = _scores(model)
    with gathered:
        policy = _policy(model, *deciding(model.policy))
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
    return SelectorRecipe(
        scores=scores,
        combinations=combinations,
        confidence_score=model.confidence_score,
        calibrator=calibrator,
        policy=policy,
        predictor=predictor,
        right=model.right,
        sets=sets,
        label_calibrator=label_calibrator,
        sampled=model.model.sampled,
        observes=model.policy.get("kind") == OBSERVE,
    )


def label_limits(thresholds: Named | None, labels: Sequence[str]) -> LimitsRecipe:
    """Return the rule by which a multilabel task predicts its labels, from the settings in `thresholds`; None: each
    label from probability 0.5 on."""
    name, settings = named("thresholds", thresholds or "fixed")
    if name == "fixed" and "labels" in settings:
        settings = {**settings, "labels": _limits_by_position(settings["labels"], labels)}
    limits: LimitsRecipe = part("thresholds", LABEL_LIMITS, name, settings)
    return limits


def _scores(model: SelectorSettings) -> tuple[dict[str, ScoreRecipe], dict[str, CombinationRecipe]]:
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
    known = (*scores, *combinations)
    if model.confidence_score not in known:
        raise ValueError(
            f"confidence.score: {model.confidence_score!r} is not among the scores: {', '.join(known)}"
            f"{did_you_mean(model.confidence_score, known)}"
        )
    return scores, combinations


def _add_score(
    model: SelectorSettings,
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
    own = model.model.own_scores()
    if kind in own:
        if settings:
            raise ValueError(f"{within}: {kind} comes with a request and has no settings but `as`")
        scores[name] = own[kind]
        return
    model.model.check_name(kind, place)
    offered = {other: SCORES[other] for other in model.model.offered_scores()}
    score = part(place, offered, kind, settings, within=within, also=(*own, *COMBINATIONS))
    scores[name] = model.model.suited(kind, score, place)
    link = model.task.link
    if ONLY_FOR.get(kind, link) != link:
        fitting = [other for other in offered if ONLY_FOR.get(other, link) == link]
        raise ValueError(
            f"{place}: {kind} is not defined for a {model.task.kind} task; these are: {', '.join(fitting)}"
        )


def deciding(policy: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the settings of the policy that decides, or would decide where it only observes, and their place."""
    if policy.get("kind") != OBSERVE:
        return policy, "policy"
    if unknown := [key for key in policy if key not in ("kind", "rule")]:
        raise ValueError(f"policy.{unknown[0]}: observe takes a `rule`, a policy that would decide, and nothing else")
    rule = policy.get("rule", ANSWERS_ALL)
    if not isinstance(rule, Mapping) or rule.get("kind") == OBSERVE:
        raise ValueError("policy.rule: write the policy that would decide, with its `kind`")
    return rule, "policy.rule"


def _policy(model: SelectorSettings, written: Mapping[str, Any], place: str) -> PolicyRecipe | AllOf:
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


def _all_of(model: SelectorSettings, settings: dict[str, Any], within: str) -> AllOf:
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


def _rule_settings(model: SelectorSettings) -> Mapping[str, Any]:
    """The settings of the main rule, behind gates or not."""
    written, _ = deciding(model.policy)
    rule: Mapping[str, Any] = written["rule"] if written.get("kind") == "all_of" else written
    return rule


def _rule_place(model: SelectorSettings) -> str:
    written, place = deciding(model.policy)
    return f"{place}.rule" if written.get("kind") == "all_of" else place


def _predictor(model: SelectorSettings) -> PredictorRecipe:
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
        raise Mistakes.of([ValueError(f"{place}.{label}: {one_of(label, labels)}") for label in unknown[:MOST_NAMED]])
    if otherwise is None and (missing := [label for label in labels if label not in told]):
        raise ValueError(f"{place}: there is no number for {', '.join(missing[:5])}")
    if wrong := [name for name, one in told.items() if isinstance(one, bool) or not isinstance(one, int | float)]:
        raise ValueError(f"{place}.{wrong[0]}: {told[wrong[0]]!r} is not a number")
    default = 0.0 if otherwise is None else otherwise
    return tuple(float(told.get(label, default)) for label in labels)


def _limits_by_position(limits: Any, labels: Sequence[str]) -> dict[int, float]:
    place = "thresholds.fixed.labels"
    if not isinstance(limits, Mapping):
        raise ValueError(f"{place}: write a mapping from labels to their limits, like `labels: {{A01: 0.3}}`")
    index = {label: position for position, label in enumerate(labels)}
    if unknown := [label for label in limits if label not in index][:MOST_NAMED]:
        raise Mistakes.of([ValueError(f"{place}.{label}: {one_of(label, index)}") for label in unknown])
    try:
        return {index[label]: fraction(label, limit) for label, limit in limits.items()}
    except InvalidInput as error:
        raise ValueError(f"{place}: {error}") from None


def _calibrator(model: SelectorSettings) -> CalibratorRecipe:
    name, settings = named("confidence.calibrator", model.calibrator)
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
    if calibrator.reads in OF_ANSWERS and not model.task.exclusive:
        raise ValueError(
            f"confidence.calibrator: {name} reads the probabilities of labels that exclude each other, which those of a"
            " multilabel task do not; use isotonic here, and `label_confidence: correctness` for each label"
        )
    return calibrator


def _sets(model: SelectorSettings, policy: PolicyRecipe | AllOf) -> PredictionSetsRecipe | None:
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
    suited = model.model.sets(settings, policy.acts_on_sets) if model.task.exclusive else settings
    if suited is None:
        return None
    kind = suited.pop("kind", "split")
    place = _rule_place(model) if rule.get("kind") == "risk_control" and "alpha" in rule else "prediction_set"
    recipe: PredictionSetsRecipe = part("prediction_set.kind", table, kind, suited, within=place)
    return recipe


def _label_calibrator(model: SelectorSettings) -> LabelCalibratorRecipe | None:
    if model.task.exclusive:
        if model.label_confidence is not None:
            raise ValueError("label_confidence: this is for multilabel tasks; here confidence is that of the one label")
        return None
    name, settings = named("label_confidence", model.label_confidence or "isotonic")
    recipe: LabelCalibratorRecipe = part("label_confidence", LABEL_CALIBRATORS, name, settings)
    return recipe


def _of_right(recipe: ScoreRecipe | CombinationRecipe) -> bool:
    """Whether it learns from predictions that were right or wrong, and from nothing between."""
    return isinstance(recipe, Logistic) or bool(getattr(recipe, "learns_from_right", False))


def _check_right(model: SelectorSettings, policy: PolicyRecipe | AllOf, learners: Sequence[str]) -> None:
    if model.right == "jaccard" and model.task.exclusive:
        raise ValueError("confidence.right: jaccard is for multilabel tasks; one label is right or wrong")
    if model.right == "exact":
        return
    rule = policy.rule if isinstance(policy, AllOf) else policy
    if policy.certifies and not (isinstance(rule, SelectiveRisk) and rule.bets):
        raise ValueError(
            f"{_rule_place(model)}.kind: {_rule_settings(model)['kind']} counts errors; it needs"
            " `confidence: {right: exact}`, or `method: ltt` with `bound: betting`, which takes degrees"
        )
    if learners:
        raise ValueError(f"scores: {learners[0]} learns from right and wrong; it needs `confidence: {{right: exact}}`")
