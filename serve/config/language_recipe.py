"""Which scores, sets and rules go with a language model, and why the others do not."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from demur.policies.cheapest_label import LeastCost
from demur.policies.conformal_sets import GroupConditionalSets
from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.hosts.endpoint import OpenAIHost
from demur.serve.config.hosts.given import GivenHost
from demur.serve.config.prompt import PromptConfig
from demur.uncertainty.calibrators import OF_SCORES
from demur.uncertainty.combination import CombinationRecipe
from demur.uncertainty.output import OF_REPLIES
from demur.uncertainty.sampled_scores import OF_PASSES, OverSamples
from demur.uncertainty.score_cascade import Cascade
from demur.uncertainty.scores import REPLY_SCORES, SCORES, ScoreRecipe
from demur.uncertainty.token_scores import SpanScore

if TYPE_CHECKING:
    from demur.serve.config.file import ModelConfig

ASK_FOR_PROBABILITIES = "set `prompt: {probabilities: first_token}`, or `full_label` or `samples`"

ONLY_KIND = {"self_consistency": "binary", "eigv_laplacian": "multilabel"}
"""Scores that are not defined for any other kind of task."""

NOT_OF_PAIRS = ("template", "rating_template", "few_shot", "probabilities")
"""Settings of a prompt that have no part in comparing."""


def writes(model: "ModelConfig") -> bool:
    """Whether a language model's replies are there to be read."""
    return model.host.has_replies


def compares(model: "ModelConfig") -> bool:
    """Whether all that the model is asked is which of two inputs is more surely positive."""
    return model.host.rated_by is not None


def own_probabilities(model: "ModelConfig") -> bool:
    """Whether probabilities tell more than what is predicted. Of a text, and of a reply that is read as it stands, they
    are 1 and 0."""
    if isinstance(model.host, GivenHost):
        return (
            bool({"probabilities", "candidates", "logits"} & set(model.host.gives))
            or model.prompt.probabilities == "samples"
        )
    return (
        not writes(model)
        or compares(model)
        or (model.task.kind != "generate" and model.prompt.probabilities != "reply")
    )


def offered_scores(model: "ModelConfig") -> list[str]:
    """The names that suit the kind of host."""
    return list(SCORES) if writes(model) else [name for name in SCORES if name not in REPLY_SCORES]


def check_name(model: "ModelConfig", kind: str, place: str) -> None:
    """Raise `ValueError` for a score that a classifier cannot have, before its settings are looked at."""
    if kind in REPLY_SCORES and not writes(model):
        raise ValueError(
            f"{place}: {kind} reads the replies of a language model, and the host is a {model.host.kind};"
            f" these go with it: {', '.join(offered_scores(model))}"
        )


def as_hosted(model: "ModelConfig", kind: str, score: ScoreRecipe, place: str) -> ScoreRecipe:
    """Return the score as the language model's output has it; raise `ValueError` where that lacks what it needs."""
    if not writes(model):
        if score.needs == {"probabilities"} and not own_probabilities(model):
            raise ValueError(f"{place}: {kind} looks at probabilities, which no request brings; see `host.gives`")
        return score
    task = model.task.kind
    if ONLY_KIND.get(kind, task) != task:
        raise ValueError(f"{place}: {kind} is for {ONLY_KIND[kind]} tasks, and this is a {task} one; leave it out")
    if "embedding" in score.needs and not model.host.is_given:
        raise ValueError(f"{place}: {kind} looks at an embedding, and a language model gives none; leave it out")
    if kind in OF_PASSES:
        if task == "generate":
            raise ValueError(f"{place}: {kind} counts labels, and a text has none; use semantic_entropy")
        return OverSamples(name=kind)
    if not score.needs & OF_REPLIES and not own_probabilities(model):
        other = "use a score of the reply, such as g_nll" if task == "generate" else ASK_FOR_PROBABILITIES
        raise ValueError(f"{place}: {kind} looks at probabilities, which are 1 and 0 here; {other}")
    if isinstance(score, SpanScore) and score.per == "label" and task == "generate":
        raise ValueError(f"{place}: `per: label` of {kind} needs labels, and a text has none; leave it out")
    if kind == "self_verbalised" and task == "generate":
        raise ValueError(f"{place}: {kind} is stated of labels, and a text has none; use rating")
    if score.needs & {"logprobs", "top_logprobs"} and isinstance(model.host, OpenAIHost):
        _check_logprobs(model.host, f"{place}: {kind}")
    return score


def hosted_sets(model: "ModelConfig", settings: Mapping[str, Any], policy_acts_on_sets: bool) -> dict[str, Any] | None:
    """Return the settings of the prediction sets of a task with one right label; None: the prediction is the set."""
    if not writes(model) and own_probabilities(model):
        if settings.get("kind") == "sampled" and settings.get("source", "passes") != "passes":
            raise ValueError("prediction_set: a classifier has passes and no samples; leave `source` out")
        return dict(settings)
    if model.task.kind == "generate":
        if settings or policy_acts_on_sets:
            raise ValueError("prediction_set: a text has no labels that could be ruled out; act on confidence instead")
        return None
    if settings.get("kind") == "sampled":
        return {**settings, "source": "samples"}
    if own_probabilities(model):
        return dict(settings)
    if settings or policy_acts_on_sets:
        raise ValueError(
            "prediction_set: probabilities are 1 and 0 here; use `kind: sampled`, which counts sampled replies, or"
            f" {ASK_FOR_PROBABILITIES}"
        )
    return None


def check_language(model: "ModelConfig", recipe: SelectorRecipe) -> None:
    """Raise `ValueError` where the rest of the selector asks for what this language model does not give."""
    if not writes(model) and own_probabilities(model):
        return
    _check_cascades(recipe.scores, recipe.combinations)
    if compares(model):
        _check_tournament(model, recipe)
    host, prompt = model.host, model.prompt
    if prompt.probabilities in ("first_token", "full_label") and isinstance(host, OpenAIHost):
        _check_logprobs(host, f"prompt.probabilities: {prompt.probabilities}")
    if not own_probabilities(model):
        if recipe.calibrator.reads not in OF_SCORES:
            raise ValueError(
                "confidence.calibrator: it reads the probabilities of all labels, which are 1 and 0 here; use isotonic"
                " or platt, which read the score"
            )
        if isinstance(recipe.predictor, LeastCost):
            raise ValueError(
                f"policy.matrix: expected costs need probabilities, which are 1 and 0 here; {ASK_FOR_PROBABILITIES}"
            )
    if model.samples.stop is None:
        return
    if model.task.kind in ("multilabel", "generate"):
        raise ValueError(
            f"samples.stop: what may still be sampled cannot be counted in a {model.task.kind} task; leave `min` and"
            " `stop` out, and all are drawn"
        )
    if isinstance(recipe.sets, GroupConditionalSets):
        raise ValueError("samples.stop: sets that differ by group are not known while replies are drawn; leave it out")


def _check_cascades(scores: Mapping[str, ScoreRecipe], combinations: Mapping[str, CombinationRecipe]) -> None:
    """Raise `ValueError` where the cheap score of a cascade is not the cheap one."""
    for name, mix in combinations.items():
        if isinstance(mix, Cascade) and "samples" in scores[mix.first].needs:
            raise ValueError(
                f"scores: {name}: {mix.first}, which comes first, takes the samples that it should save; begin with one"
                " that reads the first reply, such as g_nll"
            )


def _check_tournament(model: "ModelConfig", recipe: SelectorRecipe) -> None:
    if model.task.kind != "binary":
        raise ValueError(f"host.tournament: it rates the inputs of a binary task, and this one is {model.task.kind}")
    if unread := [name for name in NOT_OF_PAIRS if getattr(model.prompt, name) != getattr(PromptConfig(), name)]:
        raise ValueError(f"host.tournament: the model is only asked to compare; leave out prompt.{unread[0]}")
    if recipe.needs - {"probabilities"}:
        asking = [name for name, score in recipe.scores.items() if score.needs - {"probabilities"}]
        raise ValueError(
            "host.tournament: the model only compares, and gives nothing but probabilities, which"
            f" {', '.join(asking) or 'prediction_set'} cannot do with; use scores like entropy"
        )


def _check_logprobs(host: OpenAIHost, what: str) -> None:
    if not host.gives_logprobs:
        raise ValueError(
            f"{what} needs log-probabilities, and `host.gives_logprobs` is false; use a score of samples, such as"
            " semantic_entropy, or `rating`"
        )
