"""The selector that the settings of a model ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from demur.library.recipe import SelectorSettings, selector_recipe
from demur.policies.cheapest_label import CostLimit, LeastCost
from demur.policies.selective_risk import SelectiveRisk
from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.given import check_given, check_names, given_scores
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.language_recipe import (
    as_hosted,
    check_language,
    check_name,
    hosted_sets,
    offered_scores,
    own_probabilities,
    writes,
)
from demur.uncertainty.calibrators import OF_ANSWERS
from demur.uncertainty.output import Need
from demur.uncertainty.scores import ScoreRecipe

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig


def recipe_of(model: "ModelConfig") -> SelectorRecipe:
    """Return the recipe, or raise `ValueError` in words for whoever wrote the settings: with everything that is wrong
    with one part or another, else with what does not go together."""
    check_names(model)
    recipe = selector_recipe(
        SelectorSettings(
            task=model.task,
            model=_HostedModel(model),
            scores=model.scores,
            confidence_score=model.confidence.score,
            calibrator=model.confidence.calibrator,
            right=model.right,
            policy=model.policy,
            prediction_set=model.prediction_set,
            label_confidence=model.label_confidence,
        )
    )
    check_language(model, recipe)
    for check in (check_given, check_gives):
        check(model, "what is configured", recipe.needs, "prediction_set" if recipe.sets else "scores")
    _check_sparse(model, recipe)
    return recipe


def check_gives(model: "ModelConfig", kind: str, needs: frozenset[Need], place: str) -> None:
    """Raise `ValueError` for something that reads what no model gives that is hosted so."""
    for need in sorted(needs - model.host.may_give):
        why = model.host.ways_to_give.get(need, "a model of this `host.kind` gives none")
        raise ValueError(f"{place}: {kind} reads {need.replace('_', ' ')}, and {why}; or leave {kind} out")


def _check_sparse(model: "ModelConfig", recipe: SelectorRecipe) -> None:
    """Raise `ValueError` where answers or labels of a sparse task cannot be calibrated so."""
    calibrator, host = recipe.label_calibrator, model.host
    if model.task.sparse and recipe.calibrator.reads in OF_ANSWERS:
        raise ValueError(
            "confidence.calibrator: it needs a column for each label, which a sparse task has not; use isotonic or"
            " platt, which read the score"
        )
    if calibrator is None or not model.task.sparse:
        return
    if calibrator.by_label:
        raise ValueError("label_confidence: maps for each label need a column for each, which a sparse task has not")
    if isinstance(host, GivenHost) and calibrator.k > (host.candidates or 0):
        raise ValueError(f"label_confidence: k is {calibrator.k}, and a row has at most {host.candidates} candidates")


@dataclass(frozen=True)
class _HostedModel:
    """What a configured model can give to a selector."""

    model: "ModelConfig"

    @property
    def sampled(self) -> bool:
        model = self.model
        return writes(model) and own_probabilities(model) and model.prompt.probabilities == "samples"

    def offered_scores(self) -> list[str]:
        return offered_scores(self.model)

    def own_scores(self) -> Mapping[str, ScoreRecipe]:
        return given_scores(self.model)

    def check_name(self, kind: str, place: str) -> None:
        check_name(self.model, kind, place)

    def suited(self, kind: str, score: ScoreRecipe, place: str) -> ScoreRecipe:
        hosted = as_hosted(self.model, kind, score, place)
        check_given(self.model, kind, hosted.needs, place)
        check_gives(self.model, kind, hosted.needs, place)
        return hosted

    def sets(self, settings: Mapping[str, Any], acts_on_sets: bool) -> dict[str, Any] | None:
        return hosted_sets(self.model, settings, acts_on_sets)


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
